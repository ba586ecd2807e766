"""`maskwright finetune`: a pre-trained encoder and labelled rows in, a model for the task out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..core import config as configuration
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    parse_columns,
    print_json,
    print_metrics,
    print_text,
    set_threads,
)

if TYPE_CHECKING:
    from ..train.finetune import FinetuneResult


def finetune(
    task: Annotated[str | None, typer.Argument(help="classification or regression.")] = None,
    model: Annotated[str | None, typer.Option(help="The model folder to start from.")] = None,
    preset: Annotated[str | None, typer.Option(help="Start from scratch with this network instead.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="The tokenizer of a start from scratch.")] = None,
    train: Annotated[Path | None, typer.Option(help="Labelled rows to learn from.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Labelled rows to choose the best epoch.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The run folder.")] = None,
    columns: ColumnsOption = None,
    epochs: Annotated[int | None, typer.Option(help="Times that every row is seen.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of one step.")] = None,
    accumulation: Annotated[int | None, typer.Option(help="Micro-batches that make a step.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens of one row, at most.")] = None,
    warmup: Annotated[float | None, typer.Option(help="Share of the steps (< 1) or number of steps.")] = None,
    schedule: Annotated[
        Literal["linear", "cosine", "constant"] | None, typer.Option(help="How the rate falls.")
    ] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many epochs without gain; 0: never.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Repeat with so many seeds; mean and deviation.")] = None,
    freeze_encoder: Annotated[
        bool, typer.Option("--freeze-encoder", help="Train the pooler and the head only.")
    ] = False,
    class_weight: Annotated[Literal["balanced"] | None, typer.Option(help="Weigh rare classes up.")] = None,
    seed: SeedOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    config: Annotated[
        Path | None, typer.Option(help="A TOML recipe; it sets anything a flag can, and flags win.")
    ] = None,
    print_config: Annotated[bool, typer.Option("--print-config", help="Show the resulting recipe and stop.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Discard what the run folder holds.")] = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Fine-tune a model on labelled rows. The same command goes on with a run that was interrupted.

    Examples:

        maskwright finetune classification --model runs/a/model --train train.tsv --dev dev.tsv -o runs/b

        maskwright finetune regression --model runs/a/model --train pairs.tsv --columns label=score -o runs/c

        maskwright finetune classification --preset bert-mini --tokenizer tok/ --train train.csv --seeds 5 -o runs/d
    """
    from ..train.finetune_config import FinetuneConfig

    flags = {
        "task": task,
        "model": model,
        "preset": preset,
        "tokenizer": tokenizer,
        "train": train,
        "dev": dev,
        "output": output,
        "columns": parse_columns(columns) or None,
        "epochs": epochs,
        "lr": lr,
        "batch_size": batch_size,
        "accumulation": accumulation,
        "max_length": max_length,
        "warmup": warmup,
        "schedule": schedule,
        "patience": patience,
        "seeds": seeds,
        "freeze_encoder": freeze_encoder or None,
        "class_weight": class_weight,
        "seed": seed,
        "device": device if device != "auto" else None,
        "precision": precision if precision != "auto" else None,
        "skip_bad_rows": skip_bad_rows or None,
    }
    recipe = configuration.load(FinetuneConfig, config, flags)
    if print_config:
        print_json(configuration.to_dict(recipe)) if json else print_text(configuration.to_toml(recipe).rstrip())
        return
    set_threads(threads)
    from ..train.finetune import finetune as run_finetuning

    _show_result(run_finetuning(recipe, restart=restart), json)


def _show_result(result: FinetuneResult, json: bool) -> None:
    if json:
        print_json(
            {
                "run": str(result.output),
                "model": str(result.model),
                "report": str(result.report),
                "metrics": result.mean,
                "deviation": result.deviation,
                "seeds": result.seeds,
            }
        )
        return
    if result.already_finished:
        print_text("This run is finished; here is what it found (--restart would start it over).")
    if len(result.seeds) > 1:
        for name, value in result.mean.items():
            print_text(f"{name:<12}  {value:.4f} ± {result.deviation[name]:.4f}")
        print_text(f"over {len(result.seeds)} seeds; model/ is the one with the best dev {result.main_metric}")
    else:
        print_metrics(result.mean)
    print_text(f"model:  {result.model}\nreport: {result.report}")
    print_text(f"next:   maskwright evaluate {result.model} test.tsv")
