"""`maskwright experiment rare`: methods for class imbalance, compared on your data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...experiments.rare.config import RareLabConfig
from ..common import JsonFlag, print_json, print_table, print_text
from ..settings import RestartFlag, takes_settings, tell_if_finished

if TYPE_CHECKING:
    from ...experiments.rare.run import RareLabResult

METRICS = ("pr_auc", "f1", "recall_at_precision_90")


@takes_settings(RareLabConfig, has_recipe=True)
def rare(recipe: RareLabConfig, restart: RestartFlag = False, json: JsonFlag = False) -> None:
    """Compare methods for class imbalance: weights, focal loss, resampling, threshold, autoencoder, bag of words.

    Rerun the same command to resume.

    Examples:

        maskwright experiment rare --data hate.tsv --model runs/a/model --rare-class hate_speech --rate 0.05 -o runs/a

        maskwright experiment rare --data hate.tsv --model runs/a/model --rare-class hate_speech \
--max-train-rows 1000 --epochs 2 -o runs/small --json
    """
    from ...experiments.rare.run import rare_lab

    _show_result(rare_lab(recipe, restart=restart), json)


def _show_result(result: RareLabResult, json: bool) -> None:
    if json:
        print_json(
            {
                "run": str(result.output),
                "report": str(result.report),
                "parts": result.parts,
                "rows": result.rows,
            }
        )
        return
    tell_if_finished(result.already_finished)
    cells = [(row["title"], *(_shown(row, metric) for metric in METRICS)) for row in result.rows]
    print_table(("method", *METRICS), cells, right=METRICS)
    print_text("pr_auc with its 95 % interval; * marks what differs from plain fine-tuning beyond noise.")
    print_text(f"report: {result.report}")


def _shown(row: dict[str, Any], metric: str) -> str:
    score = row[metric]
    mark = " *" if row.get("minus_plain", {}).get(metric, {}).get("beyond_noise") else ""
    interval = f" ({score['low']:.3f}-{score['high']:.3f})" if metric == "pr_auc" else ""
    return f"{score['mean']:.3f}{interval}{mark}"
