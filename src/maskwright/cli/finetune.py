"""`maskwright finetune`: a pre-trained encoder and labelled rows in, a model for the task out."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.config import read_toml
from ..core.errors import ConfigError
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
    AverageCheckpointsOption,
    AverageSeedsFlag,
    BatchSizeOption,
    BothOrdersFlag,
    CalibrateFlag,
    ClassWeightOption,
    ContrastiveFlag,
    CrfFlag,
    DelimiterOption,
    DevOption,
    EpochsOption,
    FocalOption,
    FreezeEncoderFlag,
    LabelSmoothingOption,
    MetricOption,
    ModelOption,
    MultiLabelFlag,
    MultiTaskOption,
    NormalOption,
    NormalQuantileOption,
    PatienceOption,
    PresetOption,
    ResampleOption,
    ScoreRangeOption,
    SeedsOption,
    TargetTokenizerOption,
    TaskArgument,
    ThresholdForOption,
    ThresholdPrecisionOption,
    TokenizerOption,
    TokensOfStepOption,
    TrainOption,
)
from .long_options import LongOption, MaxWindowsOption, PoolOption, StrideOption
from .training_options import (
    AccumulationOption,
    ActivationCheckpointingFlag,
    LearningRateOption,
    MaxLengthOption,
    OutputOption,
    PrintConfigFlag,
    RecipeOption,
    RestartFlag,
    ScheduleOption,
    SetOption,
    TensorBoardFlag,
    WarmupOption,
    load_recipe,
    print_recipe,
    tell_if_finished,
)

if TYPE_CHECKING:
    from ..train.finetune import FinetuneResult
    from ..train.finetune_config import FinetuneConfig
    from ..train.multi_task import MultiTaskResult
    from ..train.multi_task_config import MultiTaskConfig


def finetune(
    task: TaskArgument = None,
    model: ModelOption = None,
    preset: PresetOption = None,
    tokenizer: TokenizerOption = None,
    target_tokenizer: TargetTokenizerOption = None,
    network: SetOption = None,
    train: TrainOption = None,
    dev: DevOption = None,
    multi_task: MultiTaskOption = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    epochs: EpochsOption = None,
    lr: LearningRateOption = None,
    batch_size: BatchSizeOption = None,
    batch_tokens: TokensOfStepOption = None,
    accumulation: AccumulationOption = None,
    activation_checkpointing: ActivationCheckpointingFlag = False,
    max_length: MaxLengthOption = None,
    warmup: WarmupOption = None,
    schedule: ScheduleOption = None,
    patience: PatienceOption = None,
    seeds: SeedsOption = None,
    average_seeds: AverageSeedsFlag = False,
    freeze_encoder: FreezeEncoderFlag = False,
    class_weight: ClassWeightOption = None,
    focal: FocalOption = None,
    resample: ResampleOption = None,
    threshold_for: ThresholdForOption = None,
    threshold_precision: ThresholdPrecisionOption = None,
    score_range: ScoreRangeOption = None,
    normal: NormalOption = None,
    normal_quantile: NormalQuantileOption = None,
    multi_label: MultiLabelFlag = False,
    metric: MetricOption = None,
    delimiter: DelimiterOption = None,
    label_smoothing: LabelSmoothingOption = None,
    average_checkpoints: AverageCheckpointsOption = None,
    crf: CrfFlag = False,
    calibrate: CalibrateFlag = False,
    contrastive: ContrastiveFlag = False,
    long: LongOption = None,
    stride: StrideOption = None,
    pool: PoolOption = None,
    max_windows: MaxWindowsOption = None,
    both_orders: BothOrdersFlag = False,
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

        maskwright finetune regression --model runs/a/model --train stsb.tsv --score-range 0 5 -o runs/sts

        maskwright finetune regression --contrastive --model runs/a/model --train pairs.tsv --dev dev.tsv -o runs/s

        maskwright finetune classification --model runs/a/model --train docs.csv --long windows --pool max -o runs/l

        maskwright finetune tagging --model runs/a/model --train train.conll --dev dev.conll --crf -o runs/n

        maskwright finetune qa --model runs/a/model --train train.json --dev dev.json --max-length 384 -o runs/q

        maskwright finetune classification --model runs/a/model --train train.tsv --threshold-for spam -o runs/r

        maskwright finetune anomaly --model runs/a/model --train train.tsv --dev dev.tsv -o runs/anomaly

        maskwright finetune classification --model runs/a/model --multi-task a.tsv regression:b.tsv -o runs/x

        maskwright finetune generation --model runs/g/model --train pairs.tsv --delimiter "<to-fr>" -o runs/fr

        maskwright finetune translation --preset transformer-mini --tokenizer tok/ --train a.de b.en -o runs/t

        maskwright finetune choice --model runs/a/model --train train.jsonl --dev dev.jsonl -o runs/m

        maskwright finetune classification --preset bert-mini --tokenizer tok/ --train train.csv --seeds 5 -o runs/d
    """
    flags = {**locals(), "columns": parse_columns(columns)}
    recipe = _recipe(config, flags)
    if print_config:
        print_recipe(recipe, json)
        return
    set_threads(threads)
    _run(recipe, restart, json)


def _recipe(path: Path | None, flags: dict[str, Any]) -> FinetuneConfig | MultiTaskConfig:
    """The recipe of one task, or of several where the flags or the file name them."""
    from ..train.finetune_config import FinetuneConfig
    from ..train.multi_task_config import MultiTaskConfig

    if flags["multi_task"] or (path is not None and "multi_task" in read_toml(path)):
        if flags["train"] is not None:
            raise ConfigError("Give either --train (one task) or --multi-task (several).")
        own = {setting.name for setting in fields(FinetuneConfig)} - {
            setting.name for setting in fields(MultiTaskConfig)
        }
        alone = [f"--{name.replace('_', '-')}" for name in sorted(own) if flags.get(name)]
        if alone:
            raise ConfigError(f"{', '.join(alone)} does not go with --multi-task (similarity:FILE trains vectors).")
        return load_recipe(MultiTaskConfig, path, flags)
    from ..core.config import assignments

    files: dict[str, Path | None] = {}
    for name in ("train", "dev"):
        given: list[Path | None] = flags[name] or [None]
        if len(given) > 2 or (len(given) == 2 and flags["task"] != "translation"):
            raise ConfigError(
                f"--{name} has {len(given)} files; one task takes one, translation also two that belong together line "
                "by line (several --dev go with --multi-task)."
            )
        files |= {name: given[0], f"{name}_target": given[1] if len(given) == 2 else None}
    return load_recipe(FinetuneConfig, path, {**flags, **files, "network": assignments(flags["network"] or [])})


def _run(recipe: FinetuneConfig | MultiTaskConfig, restart: bool, json: bool) -> None:
    from ..train.finetune import finetune as run_finetuning
    from ..train.finetune_config import FinetuneConfig
    from ..train.multi_task import finetune_tasks

    if not isinstance(recipe, FinetuneConfig):
        _show_tasks(finetune_tasks(recipe, restart=restart), json)
        return
    test = {"tagging": "test.conll", "qa": "test.json", "choice": "test.jsonl"}.get(recipe.task, "test.tsv")
    if recipe.train_target is not None:
        test = "TEST-FILE TRANSLATIONS"
    _show_result(run_finetuning(recipe, restart=restart), json, test)


def _show_tasks(result: MultiTaskResult, json: bool) -> None:
    if json:
        print_json(
            {
                "run": str(result.output),
                "report": str(result.report),
                "tasks": {name: {"model": str(result.models[name]), **own} for name, own in result.tasks.items()},
                "mean_score": result.mean["mean_score"],
                "deviation": result.deviation,
                "seeds": result.seeds,
                "average": result.average,
            }
        )
        return
    tell_if_finished(result.already_finished)
    for name, own in result.tasks.items():
        print_text(f"{name}, over {len(result.seeds)} seeds:" if len(result.seeds) > 1 else f"{name}:")
        print_metrics(own["metrics"])
    print_text(f"models: {', '.join(map(str, result.models.values()))}\nreport: {result.report}")
    print_text(f"next:   maskwright evaluate {next(iter(result.models.values()))} TEST-FILE")


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
                "calibration": result.calibration,
                "final": result.final,
                "signatures": result.signatures,
            }
        )
        return
    tell_if_finished(result.already_finished)
    if len(result.seeds) > 1:
        width = max(map(len, result.mean))
        for name, value in result.mean.items():
            print_text(f"{name:<{width}}  {value:.4f} ± {result.deviation[name]:.4f}")
        which = f"is the one with the best dev {result.main_metric}"
        if result.average is not None:
            which = f"is the mean of their weights, dev {result.main_metric} {result.average[result.main_metric]:.4f}"
        print_text(f"over {len(result.seeds)} seeds; model/ {which}")
    else:
        print_metrics(result.mean)
    if result.signatures:
        print_text("the model, written with beams:")
        print_metrics(result.final)
        print_text("\n".join(result.signatures.values()))
    if result.calibration is not None:
        found = result.calibration
        print_text(
            f"temperature {found['temperature']:.3f}: calibration error {found['ece_before']:.4f} as trained, "
            f"{found['ece']:.4f} with it (each half of the dev rows by the other half)"
        )
    print_text(f"model:  {result.model}\nreport: {result.report}")
    print_text(f"next:   maskwright evaluate {result.model} {test}")
