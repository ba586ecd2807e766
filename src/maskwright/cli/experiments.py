"""`maskwright experiment`: experiments that train several models under one budget and compare them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..experiments.config import AblationsConfig, BenchmarkConfig, LadderConfig, LayerLabConfig, RareLabConfig
from .common import Result, Table
from .settings import FINISHED, DryRunFlag, RestartFlag, make_group, takes_settings

if TYPE_CHECKING:
    from ..experiments.runner import ExperimentResult


def shown(result: ExperimentResult) -> Result:
    """The tables and the conclusions of an experiment, and where its files are."""
    tables = [
        part
        for one in result.shown.tables
        for part in (Table(one.columns, one.rows, one.title, one.right or ()), one.note or None)
    ]
    return {"run": str(result.output), "report": str(result.report), **result.facts}, (
        FINISHED if result.already_finished else None,
        *tables,
        *result.shown.sentences,
        f"report: {result.report}",
        *(f"next:   {step.command}" for step in result.shown.next_steps[:1]),
    )


@takes_settings(LayerLabConfig, has_recipe=True)
def layers(recipe: LayerLabConfig, restart: RestartFlag = False) -> Iterator[Result]:
    """Train the same tagger on features of each choice of frozen layers. Rerun the same command to resume.

    Examples:

        maskwright experiment layers minilm --train train.conll --dev dev.conll --columns token=0,tag=3 -o runs/layers

        maskwright experiment layers minilm --train train.conll --dev dev.conll --probe bilstm --seeds 3 -o runs/lstm

        maskwright experiment layers runs/a/model --train train.conll --each-layer --also-finetune -o runs/both
    """
    from ..experiments.layers import layer_lab

    yield shown(layer_lab(recipe, restart=restart))


@takes_settings(RareLabConfig, has_recipe=True)
def rare(recipe: RareLabConfig, restart: RestartFlag = False) -> Iterator[Result]:
    """Compare methods for class imbalance: weights, focal loss, resampling, threshold, autoencoder, bag of words.

    Rerun the same command to resume.

    Examples:

        maskwright experiment rare --data hate.tsv --model runs/a/model --rare-class hate_speech --rate 0.05 -o runs/a

        maskwright experiment rare --data hate.tsv --model runs/a/model --rare-class hate_speech \
--max-train-rows 1000 --epochs 2 -o runs/small --json
    """
    from ..experiments.rare import rare_lab

    yield shown(rare_lab(recipe, restart=restart))


@takes_settings(LadderConfig, has_recipe=True)
def ladder(recipe: LadderConfig, restart: RestartFlag = False) -> Iterator[Result]:
    """Compare bag of words, static embeddings, LSTM, BiLSTM, ELMo, GPT and BERT on one labeled file.

    One table: score, training time, latency, size, memory. Rerun the same command to resume.

    Examples:

        maskwright experiment ladder --data train.tsv --dev dev.tsv -o runs/ladder

        maskwright experiment ladder --data train.tsv --dev dev.tsv --corpus text/ --model minilm --seeds 5 -o runs/l

        maskwright experiment ladder --data train.tsv --corpus text/ --only static --only elmo --only gpt --only bert \
--static-method cbow -o runs/lineage --json
    """
    from ..experiments.ladder import ladder as run

    yield shown(run(recipe, restart=restart))


@takes_settings(BenchmarkConfig, has_recipe=True)
def benchmark(recipe: BenchmarkConfig, dry_run: DryRunFlag = False, restart: RestartFlag = False) -> Iterator[Result]:
    """Fine-tune on the tasks of a benchmark and compare with published scores.

    Reads the original files (GLUE folders, SQuAD .json, CoNLL-2003 eng.train, SWAG .csv) or files with plain columns.
    Rerun the same command to resume.

    Examples:

        maskwright experiment benchmark glue --data glue_data --model runs/a/model --seeds 5 -o runs/glue

        maskwright experiment benchmark glue --data glue_data --model runs/a/model --tasks cola,mrpc --grid -o runs/two

        maskwright experiment benchmark squad --data squad --model minilm --max-train-rows 10000 --dry-run -o runs/q

        maskwright experiment benchmark conll --data conll2003 --model runs/a/model --seeds 5 -o runs/ner
    """
    from ..experiments.benchmark import plan_benchmark, run_benchmark

    if not dry_run:
        yield shown(run_benchmark(recipe, restart=restart))
        return
    plan = plan_benchmark(recipe)
    columns = ("task", "train rows", "sequences", "rows to score", "settings", "runs", "steps")
    numbers, size = ("train rows", "sequences", "runs", "steps"), plan["disk_bytes"] / 1e9
    yield (
        plan,
        (
            Table(columns, map(_planned, plan["parts"]), right=numbers),
            *(f"{name} is skipped: {reason}." for name, reason in plan["missing"].items()),
            f"{plan['runs']:,} runs, {plan['steps']:,} steps; the models take about {size:,.1f} GB. Nothing was run.",
        ),
    )


def _planned(part: dict[str, Any]) -> tuple[str, ...]:
    rows, settings = part["rows"], part["settings"]
    return (
        part["name"],
        f"{rows['train']:,}" + (f" of {part['rows_in_file']:,}" if rows["train"] != part["rows_in_file"] else ""),
        f"{part['sequences']:,}",
        ", ".join(f"{count:,} {split.replace('_', ' ')}" for split, count in rows.items() if split != "train"),
        settings[0] if len(settings) == 1 else f"{len(settings)} settings",
        str(part["runs"]),
        f"{part['steps']:,}",
    )


@takes_settings(AblationsConfig)
def ablations(settings: AblationsConfig) -> Iterator[Result]:
    """Compare pre-training objectives, masking rates and model sizes at equal tokens, by fine-tuned accuracy.

    Pre-trains each model with several seeds, fine-tunes it at every checkpoint on tagged sentences, and writes
    table.md, report.html and results.json. The shipped settings take about 2.5 hours of one core.

    Examples:

        maskwright experiment ablations --corpus news.txt --train train.conll --dev dev.conll -o runs/ablations

        maskwright experiment ablations --data data/ --dry-run -o runs/ablations

        maskwright experiment ablations --print-settings -o . > my.toml
    """
    from ..experiments.ablations import SETTINGS, ablate, collect, plan, resolve_files

    if settings.print_settings:
        text = (settings.settings or SETTINGS).read_text(encoding="utf-8").rstrip()
        yield {"settings": text}, (text,)
        return
    output, chosen = settings.output.resolve(), resolve_files(settings)
    if settings.dry_run:
        lines = [run.words() for run in plan(chosen, output, settings.seeds)]
        yield {"plan": lines}, lines
        return
    yield shown((collect if settings.table else ablate)(chosen, output, settings.seeds))


app = make_group(
    "Train several models under one budget and compare them.",
    {"layers": layers, "rare": rare, "ladder": ladder, "benchmark": benchmark, "ablations": ablations},
)
