"""`maskwright experiment`: experiments that train several models under one budget and compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..experiments.config import AblationsConfig, BenchmarkConfig, LadderConfig, LayerLabConfig, RareLabConfig
from .common import JsonFlag, print_json, print_table, print_text
from .groups import make_group
from .settings import DryRunFlag, RestartFlag, print_steps, takes_settings, tell_if_finished

if TYPE_CHECKING:
    from ..experiments.runner import ExperimentResult


def show(result: ExperimentResult, json: bool) -> None:
    """Print the tables and the conclusions of an experiment, and where its files are."""
    if json:
        print_json({"run": str(result.output), "report": str(result.report), **result.facts})
        return
    tell_if_finished(result.already_finished)
    for table in result.shown.tables:
        print_table(table.columns, table.rows, title=table.title, right=table.right or ())
        if table.note:
            print_text(table.note)
    for sentence in result.shown.sentences:
        print_text(sentence)
    print_text(f"table:  {result.output / 'table.md'}\nreport: {result.report}")
    print_steps(result.shown.next_steps[:1])


@takes_settings(LayerLabConfig, has_recipe=True)
def layers(recipe: LayerLabConfig, restart: RestartFlag = False, json: JsonFlag = False) -> None:
    """Train the same tagger on features of each choice of frozen layers. Rerun the same command to resume.

    Examples:

        maskwright experiment layers minilm --train train.conll --dev dev.conll --columns token=0,tag=3 -o runs/layers

        maskwright experiment layers minilm --train train.conll --dev dev.conll --probe bilstm --seeds 3 -o runs/lstm

        maskwright experiment layers runs/a/model --train train.conll --each-layer --also-finetune -o runs/both
    """
    from ..experiments.layers import layer_lab

    show(layer_lab(recipe, restart=restart), json)


@takes_settings(RareLabConfig, has_recipe=True)
def rare(recipe: RareLabConfig, restart: RestartFlag = False, json: JsonFlag = False) -> None:
    """Compare methods for class imbalance: weights, focal loss, resampling, threshold, autoencoder, bag of words.

    Rerun the same command to resume.

    Examples:

        maskwright experiment rare --data hate.tsv --model runs/a/model --rare-class hate_speech --rate 0.05 -o runs/a

        maskwright experiment rare --data hate.tsv --model runs/a/model --rare-class hate_speech \
--max-train-rows 1000 --epochs 2 -o runs/small --json
    """
    from ..experiments.rare import rare_lab

    show(rare_lab(recipe, restart=restart), json)


@takes_settings(LadderConfig, has_recipe=True)
def ladder(recipe: LadderConfig, restart: RestartFlag = False, json: JsonFlag = False) -> None:
    """Compare bag of words, static embeddings, LSTM, BiLSTM, ELMo, GPT and BERT on one labeled file.

    One table: score, training time, latency, size, memory. Rerun the same command to resume.

    Examples:

        maskwright experiment ladder --data train.tsv --dev dev.tsv -o runs/ladder

        maskwright experiment ladder --data train.tsv --dev dev.tsv --corpus text/ --model minilm --seeds 5 -o runs/l

        maskwright experiment ladder --data train.tsv --corpus text/ --only static --only elmo --only gpt --only bert \
--static-method cbow -o runs/lineage --json
    """
    from ..experiments.ladder import ladder as run

    show(run(recipe, restart=restart), json)


@takes_settings(BenchmarkConfig, has_recipe=True)
def benchmark(
    recipe: BenchmarkConfig, dry_run: DryRunFlag = False, restart: RestartFlag = False, json: JsonFlag = False
) -> None:
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
        show(run_benchmark(recipe, restart=restart), json)
        return
    plan = plan_benchmark(recipe)
    if json:
        print_json(plan)
        return
    columns = ("task", "train rows", "sequences", "rows to score", "settings", "runs", "steps")
    print_table(columns, map(_planned, plan["parts"]), right=("train rows", "sequences", "runs", "steps"))
    for name, reason in plan["missing"].items():
        print_text(f"{name} is skipped: {reason}.")
    size = plan["disk_bytes"] / 1e9
    print_text(
        f"{plan['runs']:,} runs, {plan['steps']:,} steps; the models take about {size:,.1f} GB. Nothing was run."
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
def ablations(settings: AblationsConfig, json: JsonFlag = False) -> None:
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
        print_text((settings.settings or SETTINGS).read_text(encoding="utf-8").rstrip())
        return
    output, chosen = settings.output.resolve(), resolve_files(settings)
    if settings.dry_run:
        lines = [run.words() for run in plan(chosen, output, settings.seeds)]
        print_json({"plan": lines}) if json else print_text("\n".join(lines))
        return
    show((collect if settings.table else ablate)(chosen, output, settings.seeds), json)


app = make_group(
    "Train several models under one budget and compare them.",
    {"layers": layers, "rare": rare, "ladder": ladder, "benchmark": benchmark, "ablations": ablations},
)
