"""`maskwright distill`: a teacher in, a student out that is smaller, faster, and nearly as good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..train.distillation.config import DistillConfig
from .common import JsonFlag, print_json, print_table, print_text
from .settings import RestartFlag, takes_settings, tell_if_finished

if TYPE_CHECKING:
    from ..train.distillation.distill import DistillResult

COLUMNS = ("network", "layers", "heads", "parameters", "texts/s")


@takes_settings(DistillConfig, has_recipe=True)
def distill(recipe: DistillConfig, restart: RestartFlag = False, json: JsonFlag = False) -> None:
    """Distill a model into a smaller one. Rerun the same command to resume.

    A sentence encoder (a folder with modules.json) teaches its embeddings of unlabeled text, which are computed once
    and cached. Its student may have any preset and a separate vocabulary.

    Examples:

        maskwright distill --teacher runs/b/model --train train.tsv --dev dev.tsv -o runs/c

        maskwright distill --teacher runs/a/model --preset distilbert --steps 2000 -o runs/d corpus.txt

        maskwright distill --teacher minilm/ --preset bert-mini --vocab-size 8000 -o runs/e corpus.txt
    """
    from ..train.distillation.distill import distill as run_distillation

    _show_result(run_distillation(recipe, restart=restart), json)


def _show_result(result: DistillResult, json: bool) -> None:
    from ..train.against_baseline import health_line

    if json:
        rows: list[dict[str, Any]] = [vars(row) for row in result.rows]
        print_json(
            {
                "run": str(result.output),
                "model": str(result.model),
                "report": str(result.report),
                "metric": result.metric,
                "score_kept": result.score_kept,
                "baseline": None if result.baseline is None else result.baseline.to_json(),
                "rows": rows,
            }
        )
        return
    tell_if_finished(result.already_finished)
    cells = [
        (
            row.name,
            row.layers,
            row.heads,
            f"{row.parameters:,}",
            f"{row.texts_per_second:,.0f}",
            f"{row.scores[result.metric]:.4f}",
        )
        for row in result.rows
    ]
    print_table((*COLUMNS, result.metric), cells, right=(*COLUMNS[1:], result.metric))
    if result.score_kept is not None:
        print_text(f"The student keeps {100 * result.score_kept:.1f} % of the teacher's {result.metric}.")
    if result.baseline is not None:
        print_text(health_line([result.baseline]))
    print_text(f"model:  {result.model}\nreport: {result.report}")
