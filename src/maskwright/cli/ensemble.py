"""`maskwright ensemble`: average the predictions of several fine-tuned models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.config import option
from ..core.errors import ConfigError
from ..core.progress import note
from ..core.util import plural
from .common import JsonFlag, print_json, print_table, print_text
from .settings import takes_settings
from .using import (
    BATCH_TOKENS,
    MAX_LENGTH,
    Hardware,
    Rows,
    read_any_rows,
    refuse_same_file,
    warn_of_cuts,
    warn_of_skipped,
)

if TYPE_CHECKING:
    from ..inference.predict import EnsemblePredictions
    from ..tasks.base import AnyRow, Task


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings(Hardware, Rows):
    """Settings of `maskwright ensemble`. Raises ConfigError where nothing would be printed or written."""

    COMMAND: ClassVar[str] = "ensemble"

    models: tuple[str, ...] = option(help="Model folders, or fine-tuning runs (one model per seed).", is_argument=True)
    file: Path = option(help="Labeled rows to evaluate on.", is_argument=True)
    output: Path | None = option(None, "Also write the predictions: .jsonl, .csv or .tsv.", short="-o")
    no_score: bool = option(False, "Only write --output; the rows need no gold labels.")
    max_length: int | None = option(None, MAX_LENGTH)
    batch_tokens: int | None = option(None, BATCH_TOKENS)

    def __post_init__(self) -> None:
        if self.no_score and self.output is None:
            raise ConfigError("--no-score prints no result: pass --output FILE for the predictions.")


@takes_settings(EnsembleSettings)
def ensemble(settings: EnsembleSettings, json: JsonFlag = False) -> None:
    """Average the predictions of several models of one task: probabilities, values or span scores.

    Tags are chosen from averaged word probabilities; invalid tag sequences are repaired. Shows the score of each
    member, their mean, and the score of the ensemble.

    Examples:

        maskwright ensemble runs/b dev.tsv

        maskwright ensemble runs/b/model runs/c/model runs/d/model dev.tsv --json

        maskwright ensemble runs/q dev.json --output answers.jsonl
    """
    file, output, skip = settings.file, settings.output, settings.skip_bad_rows
    refuse_same_file(file, output)
    from ..inference.output_files import check_output, write_answers

    if output is not None:
        check_output(output)
    from ..api import open_ensemble
    from ..tasks.evaluation.scoring import read_to_score

    def read(task: Task) -> Sequence[AnyRow]:
        if settings.no_score:
            return list(read_any_rows(file, settings.columns, skip))
        table = read_to_score(task, file, settings.models[0], columns=settings.columns, skip_bad_rows=skip)
        warn_of_skipped(table)
        return table.rows

    members = open_ensemble(
        settings.models, max_length=settings.max_length, device=settings.device, precision=settings.precision
    )
    united = members.run(read, is_scored=not settings.no_score, skip_bad_rows=skip, batch_tokens=settings.batch_tokens)
    if output is not None:
        note(f"{plural(write_answers(output, united.answers()), 'answer')} in {output}")
    warn_of_cuts(united.counts)
    result = _result(united, output)
    if json:
        print_json(result)
    elif not settings.no_score:
        _show(result, file)


def _result(united: EnsemblePredictions, output: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = {"task": united.task.name, "examples": united.examples.num_rows}
    if united.evaluation is not None:
        metrics = united.evaluation.metrics
        every = list(united.scores.values())
        found |= {
            "members": [{"model": name, "metrics": scores} for name, scores in united.scores.items()],
            "mean": {name: sum(scores[name] for scores in every) / len(every) for name in every[0]},
            "metrics": metrics,
            "loss": united.evaluation.loss,
            "main_metric": united.task.main_metric,
        }
    return found | ({} if output is None else {"output": str(output)})


def _show(result: Mapping[str, Any], file: Path) -> None:
    rest = [name for name in result["metrics"] if name != result["main_metric"]]
    names = [result["main_metric"], *rest][:5]
    members = _short([one["model"] for one in result["members"]])
    rows = [(name, one["metrics"]) for name, one in zip(members, result["members"], strict=True)]
    rows += [("mean of the members", result["mean"]), ("ensemble", result["metrics"])]
    cells = [(name, *(f"{scores[metric]:.4f}" for metric in names)) for name, scores in rows]
    title = f"{result['task']} on {plural(result['examples'], 'example')} of {file}"
    print_table(("model", *names), cells, title=title, right=names)
    metric = names[0]
    gain = result["metrics"][metric] - result["mean"][metric]
    print_text(f"{len(result['members'])} models as one: {metric} {gain:+.4f} to the mean of the members")


def _short(names: Sequence[str]) -> list[str]:
    """Returns paths without their common prefix."""
    parts = [Path(name).parts for name in names]
    shared = next((place for place, column in enumerate(zip(*parts, strict=False)) if len(set(column)) > 1), 0)
    return [str(Path(*own[shared:])) for own in parts]
