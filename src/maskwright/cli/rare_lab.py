"""`maskwright rare-lab`: ways to find a rare class, compared on rows of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import (
    ColumnsOption,
    DebugFlag,
    JsonFlag,
    QuietFlag,
    RecipeDeviceOption,
    RecipePrecisionOption,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    parse_columns,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from .training_options import (
    LearningRateOption,
    MaxLengthOption,
    OutputOption,
    PrintConfigFlag,
    RecipeOption,
    RestartFlag,
    load_recipe,
    print_recipe,
    tell_if_finished,
)

if TYPE_CHECKING:
    from ..train.rare_lab import RareLabResult

METRICS = ("pr_auc", "f1", "recall_at_precision_90")


def rare_lab(
    data: Annotated[Path | None, typer.Option(help="Labelled rows, of which train, dev and test are drawn.")] = None,
    model: Annotated[str | None, typer.Option(help="The model folder to start from.")] = None,
    rare_class: Annotated[str | None, typer.Option(metavar="CLASS", help="The class to find.")] = None,
    rate: Annotated[float | None, typer.Option(help="Its share in every part.  [default: 0.05]")] = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    seeds: Annotated[int | None, typer.Option(help="So many draws of rows and models.  [default: 3]")] = None,
    max_train_rows: Annotated[
        int | None, typer.Option(help="Training rows at most; as many dev rows, twice as many test rows.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Times that every row is seen.")] = None,
    lr: LearningRateOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of one step.")] = None,
    max_length: MaxLengthOption = None,
    focal: Annotated[float | None, typer.Option(help="Gamma of the focal loss.  [default: 2]")] = None,
    seed: SeedOption = None,
    device: RecipeDeviceOption = None,
    precision: RecipePrecisionOption = None,
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    config: RecipeOption = None,
    print_config: PrintConfigFlag = False,
    restart: RestartFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Compare ways to find a rare class: weights, focal loss, resampling, threshold, autoencoder, counted words.

    The same command goes on with a run that was interrupted.

    Examples:

        maskwright rare-lab --data hate.tsv --model runs/a/model --rare-class hate_speech --rate 0.05 -o runs/rare

        maskwright rare-lab --data hate.tsv --model runs/a/model --rare-class hate_speech --max-train-rows 1000 \
--epochs 2 -o runs/small --json
    """
    flags = dict(locals())
    from ..train.rare_lab_config import RareLabConfig

    recipe = load_recipe(RareLabConfig, config, {**flags, "columns": parse_columns(columns)})
    if print_config:
        print_recipe(recipe, json)
        return
    set_threads(threads)
    from ..train.rare_lab import rare_lab as run_lab

    _show_result(run_lab(recipe, restart=restart), json)


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
