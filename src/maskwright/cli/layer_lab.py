"""`maskwright layer-lab`: which layers of a frozen encoder make the best features for a tagger."""

from __future__ import annotations

from dataclasses import asdict
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
    ScheduleOption,
    WarmupOption,
    load_recipe,
    print_recipe,
    tell_if_finished,
)

if TYPE_CHECKING:
    from ..train.layer_lab import LabRow, LayerLabResult


def layer_lab(
    model: Annotated[str | None, typer.Argument(help="The model folder whose layers are compared.")] = None,
    train: Annotated[Path | None, typer.Option(help="Tagged sentences to learn from.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Tagged sentences to score on.")] = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    probe: Annotated[
        Literal["linear", "bilstm"] | None, typer.Option(help="The tagger on the features.  [default: linear]")
    ] = None,
    probe_size: Annotated[int | None, typer.Option(help="Of the BiLSTM, in each direction.")] = None,
    probe_layers: Annotated[int | None, typer.Option(help="BiLSTMs above each other.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Of the probe.")] = None,
    crf: Annotated[bool, typer.Option("--crf", help="The probe judges the tags of a sentence together.")] = False,
    each_layer: Annotated[bool, typer.Option("--each-layer", help="A row for every single layer as well.")] = False,
    also_finetune: Annotated[
        bool, typer.Option("--also-finetune", help="And one for the fine-tuned model, in the same report.")
    ] = False,
    finetune_epochs: Annotated[int | None, typer.Option(help="Epochs of the fine-tuning.")] = None,
    finetune_lr: Annotated[float | None, typer.Option(help="Its peak learning rate.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Probes of each row; mean and deviation.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times that a probe sees every sentence.")] = None,
    lr: LearningRateOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Sentences of one step.")] = None,
    max_length: MaxLengthOption = None,
    warmup: WarmupOption = None,
    schedule: ScheduleOption = None,
    feature_dtype: Annotated[
        Literal["fp32", "bf16"] | None, typer.Option(help="How features are kept; bf16 takes half the room.")
    ] = None,
    feature_memory: Annotated[
        float | None, typer.Option(help="Gigabytes of features that stay in memory; larger ones go to files.")
    ] = None,
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
    """Train the same small tagger on each choice of layers, frozen. The same command goes on where it was cut off.

    Examples:

        maskwright layer-lab runs/a/model --train train.conll --dev dev.conll --columns token=0,tag=3 -o runs/layers

        maskwright layer-lab runs/a/model --train train.conll --dev dev.conll --probe bilstm --seeds 3 -o runs/lstm

        maskwright layer-lab runs/a/model --train train.conll --each-layer --also-finetune -o runs/both
    """
    flags = dict(locals())
    from ..train.layer_lab_config import LayerLabConfig

    recipe = load_recipe(LayerLabConfig, config, {**flags, "columns": parse_columns(columns)})
    if print_config:
        print_recipe(recipe, json)
        return
    set_threads(threads)
    from ..train.layer_lab import layer_lab as run_lab

    _show_result(run_lab(recipe, restart=restart), json)


def _show_result(result: LayerLabResult, json: bool) -> None:
    tuned = [] if result.finetuned is None else [result.finetuned]
    if json:
        print_json(
            {
                "run": str(result.output),
                "report": str(result.report),
                "metric": result.main_metric,
                "rows": [asdict(row) for row in result.rows],
                "finetuned": asdict(tuned[0]) if tuned else None,
                "order": result.order,
                "published": result.published,
                "left_out": list(result.left_out),
            }
        )
        return
    from ..train.layer_lab_report import next_steps, order_sentences, order_verdict

    tell_if_finished(result.already_finished)
    metric, published = result.main_metric, ["published"] if result.published else []
    cells = [
        [row.name, row.size, f"{row.parameters:,}", _score(row, metric), *(_published(result, row) for _ in published)]
        for row in [*result.rows, *tuned]
    ]
    columns = ("features", "size", "parameters", metric, *published)
    print_table(columns, cells, right=columns[1:])
    if published:
        print_text("Published by Devlin et al. 2019 for BERT-base on all of CoNLL-2003; not measured here.")
    for row in result.rows:
        if row.mix is not None:
            shares = ", ".join(f"{number}: {share:.3f}" for number, share in enumerate(row.mix["shares"]))
            print_text(f"The learned mix takes of layers {shares}; scale {row.mix['scale']:.3f}.")
    print_text(order_verdict(result.order))
    for sentence in order_sentences(result.order):
        print_text(f"  {sentence}")
    print_text(f"report: {result.report}")
    from ..core.config import read_toml

    recipe = read_toml(result.output / "config.toml")
    for step in next_steps(recipe, [asdict(row) for row in result.rows], result.finetuned, metric):
        print_text(f"next:   {step.command}")


def _score(row: LabRow, metric: str) -> str:
    mean = f"{row.mean[metric]:.4f}"
    return f"{mean} ± {row.deviation[metric]:.4f}" if len(row.runs) > 1 else mean


def _published(result: LayerLabResult, row: LabRow) -> str:
    value = result.published.get(row.name)
    return "" if value is None else f"{value:.3f}"
