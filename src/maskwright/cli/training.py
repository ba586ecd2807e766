"""`maskwright pretrain`, `distill` and `vectors`: encoders from raw text, or from a larger model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.config import RUN
from ..core.util import plural
from ..train.distillation.config import DistillConfig
from ..train.pretraining.config import PretrainConfig, StaticConfig
from .common import Part, Result, Table
from .embed import EmbedSettings
from .settings import FINISHED, DryRunFlag, Given, RestartFlag, load_recipe, next_command, takes_settings

if TYPE_CHECKING:
    from ..objectives.audit import AuditedSequence
    from ..train.distillation.distill import DistillResult
    from ..train.pretraining.pretrain import PretrainResult

LIST = "list"  # value of --preset and --model that lists them
DISTILL_COLUMNS = ("network", "layers", "heads", "parameters", "texts/s")

FATE_STYLES = {
    "masked": "bold cyan",
    "random": "bold magenta",
    "replaced": "bold magenta",
    "kept": "bold yellow",
    "next": "",
    "": "",
}
FATES = {
    "masked": "masked",
    "random": "random",
    "replaced": "replaced by the generator",
    "kept": "unchanged",
    "next": "to be predicted from those before",
}


def _recipe(path: Path | None, given: Given) -> Any:
    """The recipe; the given settings where --preset or --model asks for a list."""
    return given if LIST in (given.get("preset"), given.get("model")) else load_recipe(PretrainConfig, path, given)


@takes_settings(PretrainConfig, read=_recipe, has_recipe=True)
def pretrain(
    recipe: Any,
    show_batch: Annotated[
        bool, typer.Option("--show-batch", help="Print the first batch and stop.", rich_help_panel=RUN)
    ] = False,
    dry_run: DryRunFlag = False,
    restart: RestartFlag = False,
) -> Iterator[Result]:
    """Pre-train an encoder on your text. Rerun the same command to resume.

    Examples:

        maskwright pretrain --preset bert-mini --steps 2000 -o runs/a corpus.txt

        maskwright pretrain --model english -o runs/domain texts/

        maskwright pretrain --tokenizer tok/ --objective mlm --eval held-out.txt -o runs/b texts/

        maskwright pretrain --set positions=rotary --set attention=window --max-length 512 -o runs/d texts/

        maskwright pretrain --model minilm --adapter lora -o runs/domain domain.txt

        maskwright pretrain --preset lstm-small --objective clm --max-length 64 -o runs/lstm corpus.txt

        maskwright pretrain --preset list --vocab-size 8000

        maskwright pretrain --model list
    """
    if not isinstance(recipe, PretrainConfig):
        yield _models() if recipe.get("model") == LIST else _presets(recipe.get("vocab_size"))
        return
    from ..train.pretraining import pretrain as running

    if dry_run:
        plan = running.pretraining_plan(recipe)
        yield (
            plan,
            (
                f"{name.replace('_', ' '):<24}  {value:,}" if isinstance(value, int) else f"{name:<24}  {value}"
                for name, value in plan.items()
            ),
        )
    elif show_batch:
        sequences = running.first_batch(recipe, restart=restart)
        yield [asdict(sequence) for sequence in sequences], _audit(sequences)
    else:
        yield _pretrained(recipe.objective, running.pretrain(recipe, restart=restart))


def _presets(vocab_size: int | None) -> Result:
    """Presets with exact parameter counts. vocab_size: None as published."""
    from ..models.presets import PRESETS, preset
    from ..models.sizes import parameter_count
    from ..objectives.fitting import fitting_objectives, usual_objective

    rows = []
    for name in PRESETS:
        config = preset(name, **({} if vocab_size is None else {"vocab_size": vocab_size}))
        is_recurrent = config.recurrent is not None
        rows.append(
            {
                "preset": name,
                "objective": usual_objective(config) if fitting_objectives(config) else None,
                "vocab_size": config.vocab_size,
                "layers": config.num_hidden_layers,
                "hidden_size": config.hidden_size,
                "heads": None if is_recurrent else config.num_attention_heads,
                "feed_forward": None if is_recurrent else config.intermediate_size,
                "cells": config.recurrent,
                "max_length": config.max_position_embeddings,
                "parameters": parameter_count(config),
            }
        )
    columns = list(rows[0])
    cells = [
        ["" if cell is None else cell if isinstance(cell, str) else f"{cell:,}" for cell in row.values()]
        for row in rows
    ]
    return rows, (Table(columns, cells, right=columns[2:]),)


def _models() -> Result:
    """The short names of models, what they mean and whether the model is on this machine."""
    from ..hub.published import MANIFESTS, PUBLISHED, about, built_in_folder, installed_folder

    built_in = {name: ("built in", built_in_folder(name)) for name in MANIFESTS}
    others = {name: (model.hub_id, installed_folder(name) or "not installed") for name, model in PUBLISHED.items()}
    rows = [
        {"name": name, "model": model, "about": about(name), "folder": str(folder)}
        for name, (model, folder) in (built_in | others).items()
    ]
    return rows, (Table(("name", "model", "about"), [(row["name"], row["model"], row["about"]) for row in rows]),)


def _audit(sequences: list[AuditedSequence]) -> Iterator[Part]:
    """Prints the sequences in colors; yields their counts."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    counts: dict[str, int] = {}
    for number, sequence in enumerate(sequences, 1):
        line = Text(f"example {number}{_pair(sequence)}\n", style="bold")
        for token in sequence.tokens:
            counts[token.fate] = counts.get(token.fate, 0) + 1
            shown = token.shown if token.fate in ("", "next") else f"{token.shown}<-{token.original}"
            line.append(shown, style=FATE_STYLES[token.fate]).append(" ")
        console.print(line, "")
    total = sum(counts.values())
    parts = [f"{counts[fate]:,} {words}" for fate, words in FATES.items() if fate in counts]
    yield (
        f"{total - counts.get('', 0):,} of {total:,} positions selected (special tokens included in the total): "
        f"{', '.join(parts)}."
    )


def _pair(sequence: AuditedSequence) -> str:
    """What is true of A and B, for the line above them."""
    if sequence.in_order is not None:
        return ": A and B in order" if sequence.in_order else ": A and B swapped"
    if sequence.follows is not None:
        return ": B follows A" if sequence.follows else ": B is from elsewhere"
    return ""


def _pretrained(objective: str, result: PretrainResult) -> Result:
    from ..train.against_baseline import health_line
    from ..train.pretraining.health import compare_pretraining, named_baseline, next_steps

    verdict, baseline = result.verdict, vars(result.baseline)
    found: dict[str, Any] = {
        "run": str(result.output),
        "model": str(result.model),
        "report": str(result.report),
        "steps": result.steps,
        "metrics": result.scores,
        "baseline": named_baseline(result.scores, baseline),
        "health": verdict.level,
        "reasons": list(verdict.reasons),
    }
    return found, (
        FINISHED if result.already_finished else None,
        {"steps": result.steps, **result.scores},
        health_line(compare_pretraining(result.scores, baseline), verdict.level),
        *(f"  {reason}" for reason in verdict.reasons),
        f"model:  {result.model}\nreport: {result.report}",
        *(f"next:   {step.command}" for step in next_steps(objective, result.model)),
    )


@takes_settings(DistillConfig, has_recipe=True)
def distill(recipe: DistillConfig, restart: RestartFlag = False) -> Iterator[Result]:
    """Distill a model into a smaller one. Rerun the same command to resume.

    A sentence encoder (a folder with modules.json) teaches its embeddings of unlabeled text, which are computed once
    and cached. Its student may have any preset and a separate vocabulary.

    Examples:

        maskwright distill --teacher runs/b/model --train train.tsv --dev dev.tsv -o runs/c

        maskwright distill --teacher runs/a/model --preset distilbert --steps 2000 -o runs/d corpus.txt

        maskwright distill --teacher minilm/ --preset bert-mini --vocab-size 8000 -o runs/e corpus.txt
    """
    from ..train.against_baseline import health_line
    from ..train.distillation.distill import distill as run_distillation

    result = run_distillation(recipe, restart=restart)
    kept = result.score_kept
    value = {
        "run": str(result.output),
        "model": str(result.model),
        "report": str(result.report),
        "metric": result.metric,
        "score_kept": kept,
        "baseline": None if result.baseline is None else result.baseline.to_json(),
        "rows": [vars(row) for row in result.rows],
    }
    yield (
        value,
        (
            FINISHED if result.already_finished else None,
            _networks(result),
            None if kept is None else f"The student keeps {100 * kept:.1f} % of the teacher's {result.metric}.",
            None if result.baseline is None else health_line([result.baseline]),
            f"model:  {result.model}\nreport: {result.report}",
        ),
    )


def _networks(result: DistillResult) -> Table:
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
    return Table((*DISTILL_COLUMNS, result.metric), cells, right=(*DISTILL_COLUMNS[1:], result.metric))


@takes_settings(StaticConfig)
def vectors(
    settings: StaticConfig,
    restart: Annotated[bool, typer.Option("--restart", help="Replace an existing output folder.")] = False,
) -> Iterator[Result]:
    """Train static word embeddings (word2vec). The output folder works like an encoder.

    Examples:

        maskwright vectors corpus.txt -o vec/

        maskwright vectors texts/ --method cbow --size 200 --epochs 10 -o vec/

        maskwright vectors corpus.txt --min-count 1 --seed 3 -o vec/ --json
    """
    from ..train.against_baseline import health_line
    from ..train.pretraining.static_embeddings import train_static_vectors

    result = train_static_vectors(settings, replace_folder=restart)
    yield (
        result.to_json(),
        (
            f"{plural(result.words, 'word has a vector', 'words have vectors')}; {result.unknown:.1%} of "
            f"{plural(result.tokens, 'word')} of the text do not.",
            health_line([result.verdict], advice="Raise --epochs, or pass more text."),
            f"model:  {result.model}",
            next_command(EmbedSettings, model=str(result.model), matrix=True, texts=("a text", "another")),
        ),
    )
