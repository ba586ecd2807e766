"""`maskwright pretrain`: raw text in, a pre-trained encoder out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.config import RUN
from ..train.pretraining.config import PretrainConfig
from .common import JsonFlag, print_json, print_metrics, print_text
from .settings import DryRunFlag, RestartFlag, print_steps, takes_settings, tell_if_finished

if TYPE_CHECKING:
    from ..objectives.audit import AuditedSequence
    from ..train.pretraining.pretrain import PretrainResult

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


@takes_settings(PretrainConfig, has_recipe=True)
def pretrain(
    recipe: PretrainConfig,
    show_batch: Annotated[
        bool, typer.Option("--show-batch", help="Print the first batch and stop.", rich_help_panel=RUN)
    ] = False,
    dry_run: DryRunFlag = False,
    restart: RestartFlag = False,
    json: JsonFlag = False,
) -> None:
    """Pre-train an encoder on your text. Rerun the same command to resume.

    Examples:

        maskwright pretrain --preset bert-mini --steps 2000 -o runs/a corpus.txt

        maskwright pretrain --model english -o runs/domain texts/

        maskwright pretrain --tokenizer tok/ --objective mlm --eval held-out.txt -o runs/b texts/

        maskwright pretrain --set positions=rotary --set attention=window --max-length 512 -o runs/d texts/

        maskwright pretrain --model minilm --adapter lora -o runs/domain domain.txt

        maskwright pretrain --preset lstm-small --objective clm --max-length 64 -o runs/lstm corpus.txt

        maskwright pretrain --config recipes/mini.toml -o runs/c --print-config
    """
    if dry_run:
        _show_plan(recipe, json)
    elif show_batch:
        _show_batch(recipe, restart, json)
    else:
        from ..train.pretraining.pretrain import pretrain as run_pretraining

        _show_result(recipe.objective, run_pretraining(recipe, restart=restart), json)


def _show_plan(recipe: PretrainConfig, json: bool) -> None:
    from ..train.pretraining.pretrain import pretraining_plan

    plan = pretraining_plan(recipe)
    if json:
        print_json(plan)
        return
    for name, value in plan.items():
        print_text(f"{name.replace('_', ' '):<24}  {value:,}" if isinstance(value, int) else f"{name:<24}  {value}")


def _show_batch(recipe: PretrainConfig, restart: bool, json: bool) -> None:
    from dataclasses import asdict

    from ..train.pretraining.pretrain import first_batch

    sequences = first_batch(recipe, restart=restart)
    if json:
        print_json([asdict(sequence) for sequence in sequences])
        return
    _print_audit(sequences)


def _print_audit(sequences: list[AuditedSequence]) -> None:
    import sys

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
    console.print(
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


def _show_result(objective: str, result: PretrainResult, json: bool) -> None:
    from ..train.against_baseline import health_line
    from ..train.pretraining.health import compare_pretraining, named_baseline

    found: dict[str, Any] = {
        "run": str(result.output),
        "model": str(result.model),
        "report": str(result.report),
        "steps": result.steps,
        "metrics": result.scores,
        "baseline": named_baseline(result.scores, vars(result.baseline)),
        "health": result.verdict.level,
        "reasons": list(result.verdict.reasons),
    }
    if json:
        print_json(found)
        return
    from ..train.pretraining.health import next_steps

    tell_if_finished(result.already_finished)
    print_metrics({"steps": result.steps, **result.scores})
    print_text(health_line(compare_pretraining(result.scores, vars(result.baseline)), result.verdict.level))
    for reason in result.verdict.reasons:
        print_text(f"  {reason}")
    print_text(f"model:  {result.model}\nreport: {result.report}")
    print_steps(next_steps(objective, result.model))
