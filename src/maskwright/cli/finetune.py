"""`maskwright finetune`: a pre-trained encoder and labelled rows in, a model for the task out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
    print_metrics,
    print_text,
    set_threads,
)
from .finetune_options import (
    AverageSeedsFlag,
    ContrastiveFlag,
    FocalOption,
    FreezeEncoderFlag,
    MultiLabelFlag,
    NormalOption,
    NormalQuantileOption,
    ResampleOption,
    TaskArgument,
    ThresholdForOption,
    ThresholdPrecisionOption,
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
    TensorBoardFlag,
    WarmupOption,
    load_recipe,
    print_recipe,
    tell_if_finished,
)

if TYPE_CHECKING:
    from ..train.finetune import FinetuneResult


def finetune(
    task: TaskArgument = None,
    model: Annotated[str | None, typer.Option(help="The model folder to start from.")] = None,
    preset: Annotated[str | None, typer.Option(help="Start from scratch with this network instead.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="The tokenizer of a start from scratch.")] = None,
    train: Annotated[Path | None, typer.Option(help="Labelled rows to learn from.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Labelled rows to choose the best epoch.")] = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    epochs: Annotated[int | None, typer.Option(help="Times that every row is seen.")] = None,
    lr: LearningRateOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of one step.")] = None,
    accumulation: AccumulationOption = None,
    max_length: MaxLengthOption = None,
    warmup: WarmupOption = None,
    schedule: ScheduleOption = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many epochs without gain; 0: never.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Repeat with so many seeds; mean and deviation.")] = None,
    average_seeds: AverageSeedsFlag = False,
    freeze_encoder: FreezeEncoderFlag = False,
    class_weight: Annotated[Literal["balanced"] | None, typer.Option(help="Weigh rare classes up.")] = None,
    focal: FocalOption = None,
    resample: ResampleOption = None,
    threshold_for: ThresholdForOption = None,
    threshold_precision: ThresholdPrecisionOption = None,
    normal: NormalOption = None,
    normal_quantile: NormalQuantileOption = None,
    multi_label: MultiLabelFlag = False,
    crf: Annotated[bool, typer.Option("--crf", help="Tagging: judge the tags of a sentence together.")] = False,
    contrastive: ContrastiveFlag = False,
    seed: SeedOption = None,
    device: RecipeDeviceOption = None,
    precision: RecipePrecisionOption = None,
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    tensorboard: TensorBoardFlag = False,
    config: RecipeOption = None,
    print_config: PrintConfigFlag = False,
    restart: RestartFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Fine-tune a model on labelled rows. The same command goes on with a run that was interrupted.

    Examples:

        maskwright finetune classification --model runs/a/model --train train.tsv --dev dev.tsv -o runs/b

        maskwright finetune classification --model runs/a/model --train train.tsv --seeds 3 --average-seeds -o runs/b

        maskwright finetune regression --model runs/a/model --train pairs.tsv --columns label=score -o runs/c

        maskwright finetune regression --contrastive --model runs/a/model --train pairs.tsv --dev dev.tsv -o runs/s

        maskwright finetune tagging --model runs/a/model --train train.conll --dev dev.conll --crf -o runs/n

        maskwright finetune qa --model runs/a/model --train train.json --dev dev.json --max-length 384 -o runs/q

        maskwright finetune classification --model runs/a/model --train train.tsv --threshold-for spam -o runs/r

        maskwright finetune anomaly --model runs/a/model --train train.tsv --dev dev.tsv -o runs/anomaly

        maskwright finetune classification --preset bert-mini --tokenizer tok/ --train train.csv --seeds 5 -o runs/d
    """
    flags = dict(locals())
    from ..train.finetune_config import FinetuneConfig

    recipe = load_recipe(FinetuneConfig, config, {**flags, "columns": parse_columns(columns)})
    if print_config:
        print_recipe(recipe, json)
        return
    set_threads(threads)
    from ..train.finetune import finetune as run_finetuning

    test = "test.conll" if recipe.task == "tagging" else "test.tsv"
    _show_result(run_finetuning(recipe, restart=restart), json, test)


def _show_result(result: FinetuneResult, json: bool, test: str) -> None:
    if json:
        print_json(
            {
                "run": str(result.output),
                "model": str(result.model),
                "report": str(result.report),
                "metrics": result.mean,
                "deviation": result.deviation,
                "seeds": result.seeds,
                "average": result.average,
            }
        )
        return
    tell_if_finished(result.already_finished)
    if len(result.seeds) > 1:
        for name, value in result.mean.items():
            print_text(f"{name:<12}  {value:.4f} ± {result.deviation[name]:.4f}")
        which = f"is the one with the best dev {result.main_metric}"
        if result.average is not None:
            which = f"is the mean of their weights, dev {result.main_metric} {result.average[result.main_metric]:.4f}"
        print_text(f"over {len(result.seeds)} seeds; model/ {which}")
    else:
        print_metrics(result.mean)
    print_text(f"model:  {result.model}\nreport: {result.report}")
    print_text(f"next:   maskwright evaluate {result.model} {test}")
