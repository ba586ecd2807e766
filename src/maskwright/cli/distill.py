"""`maskwright distill`: a teacher in, a student out that is smaller, faster, and nearly as good."""

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
    AccumulationOption,
    LearningRateOption,
    MaxLengthOption,
    OutputOption,
    PrintConfigFlag,
    RecipeOption,
    RestartFlag,
    ScheduleOption,
    WarmupOption,
    load_recipe,
    print_recipe,
    tell_if_finished,
)

if TYPE_CHECKING:
    from ..train.distill import DistillResult

COLUMNS = ("network", "layers", "heads", "parameters", "texts/s")


def distill(
    corpus: Annotated[
        list[str] | None, typer.Argument(help="Text for a pre-trained teacher: files, folders or globs.")
    ] = None,
    teacher: Annotated[str | None, typer.Option(help="The model folder to learn from.")] = None,
    train: Annotated[Path | None, typer.Option(help="Labelled rows for a fine-tuned teacher.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Labelled rows to choose the best epoch.")] = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    preset: Annotated[
        str | None, typer.Option(help="The student: half, distilbert, or a preset as wide as the teacher.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Layers of the student; half of the teacher's by default.")] = None,
    temperature: Annotated[float | None, typer.Option(help="What logits are divided by in soft targets.")] = None,
    soft_weight: Annotated[float | None, typer.Option(help="Weight of the teacher's answers.")] = None,
    hidden_weight: Annotated[float | None, typer.Option(help="Weight of its hidden states.")] = None,
    task_weight: Annotated[float | None, typer.Option(help="Weight of the labels, or of masked words.")] = None,
    prune_heads: Annotated[
        float | None, typer.Option(help="For a further row: take this share of the teacher's heads away.")
    ] = None,
    prune_layers: Annotated[
        int | None, typer.Option(help="For a further row: take so many of its highest layers away.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps on text.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times that every row is seen.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens of one step on text, at most.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of one step.")] = None,
    max_length: MaxLengthOption = None,
    accumulation: AccumulationOption = None,
    lr: LearningRateOption = None,
    warmup: WarmupOption = None,
    schedule: ScheduleOption = None,
    evaluation: Annotated[list[str] | None, typer.Option("--eval", help="Held-out text. Repeatable.")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Steps between checkpoints.")] = None,
    keep: Annotated[int | None, typer.Option(help="Checkpoints that stay.")] = None,
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
    """Distil a model into a smaller one. The same command goes on with a run that was interrupted.

    Examples:

        maskwright distill --teacher runs/b/model --train train.tsv --dev dev.tsv -o runs/c

        maskwright distill --teacher runs/a/model --preset distilbert --steps 2000 -o runs/d corpus.txt
    """
    flags = dict(locals())
    from ..train.distill_config import DistillConfig

    recipe = load_recipe(DistillConfig, config, {**flags, "columns": parse_columns(columns), "eval": evaluation})
    if print_config:
        print_recipe(recipe, json)
        return
    set_threads(threads)
    from ..train.distill import distill as run_distillation

    _show_result(run_distillation(recipe, restart=restart), json)


def _show_result(result: DistillResult, json: bool) -> None:
    if json:
        rows: list[dict[str, Any]] = [vars(row) for row in result.rows]
        print_json(
            {
                "run": str(result.output),
                "model": str(result.model),
                "report": str(result.report),
                "metric": result.metric,
                "score_kept": result.score_kept,
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
    print_text(f"model:  {result.model}\nreport: {result.report}")
