"""`maskwright pretrain`: raw text in, a pre-trained encoder out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import (
    DebugFlag,
    JsonFlag,
    QuietFlag,
    RecipeDeviceOption,
    RecipePrecisionOption,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    print_json,
    print_metrics,
    print_text,
    set_threads,
)
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
    from ..objectives.audit import AuditedSequence
    from ..train.pretrain import PretrainResult
    from ..train.pretrain_config import PretrainConfig

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
    "next": "to be guessed from those before",
}


def pretrain(
    corpus: Annotated[
        list[str] | None, typer.Argument(help="Text: files, folders, globs, or the data/ of an earlier run.")
    ] = None,
    output: OutputOption = None,
    preset: Annotated[str | None, typer.Option(help="The network; maskwright presets lists them.")] = None,
    network: SetOption = None,
    objective: Annotated[str | None, typer.Option(help="mlm, mlm+nsp, mlm+sop, rtd, clm, bilm or denoise.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A saved tokenizer; without one, WordPiece is trained first.")
    ] = None,
    vocab_size: Annotated[int | None, typer.Option(help="Pieces of the tokenizer that is trained.")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens of one step, at most.")] = None,
    max_length: MaxLengthOption = None,
    accumulation: AccumulationOption = None,
    activation_checkpointing: ActivationCheckpointingFlag = False,
    compile_: Annotated[
        str | None, typer.Option("--compile", help="Compile the layers: auto, on or off.  [default: auto]")
    ] = None,
    lr: LearningRateOption = None,
    warmup: WarmupOption = None,
    schedule: ScheduleOption = None,
    mask_rate: Annotated[float | None, typer.Option(help="Share of the tokens to guess.")] = None,
    whole_words: Annotated[bool, typer.Option("--whole-words", help="Mask whole words.")] = False,
    generator_share: Annotated[
        float | None, typer.Option(help="Width of rtd's generator, as a share.  [default: 0.25]", show_default=False)
    ] = None,
    reset_state: Annotated[
        bool, typer.Option("--reset-state", help="Recurrent networks under clm: begin every example anew.")
    ] = False,
    evaluation: Annotated[
        list[str] | None,
        typer.Option("--eval", help="Held-out text, or a labelled file for a linear probe. Repeatable."),
    ] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Steps between checkpoints.")] = None,
    keep: Annotated[int | None, typer.Option(help="Checkpoints that stay.")] = None,
    seed: SeedOption = None,
    device: RecipeDeviceOption = None,
    precision: RecipePrecisionOption = None,
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    keep_duplicates: Annotated[bool, typer.Option("--keep-duplicates", help="Keep repeated documents.")] = False,
    tensorboard: TensorBoardFlag = False,
    config: RecipeOption = None,
    print_config: PrintConfigFlag = False,
    show_batch: Annotated[
        bool, typer.Option("--show-batch", help="Show the first batch with its masks and pairs and stop.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and stop.")] = False,
    restart: RestartFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Pre-train an encoder on your text. The same command goes on with a run that was interrupted.

    Examples:

        maskwright pretrain --preset bert-mini --steps 2000 -o runs/a corpus.txt

        maskwright pretrain --tokenizer tok/ --objective mlm --eval held-out.txt -o runs/b texts/

        maskwright pretrain --set positions=rotary --set attention=window --max-length 512 -o runs/d texts/

        maskwright pretrain --preset lstm-small --objective clm --max-length 64 -o runs/lstm corpus.txt

        maskwright pretrain --config recipes/mini.toml -o runs/c --print-config
    """
    flags = dict(locals())
    from ..core.config import assignments
    from ..train.pretrain_config import PretrainConfig

    settings = {**flags, "eval": evaluation, "compile": compile_, "model": assignments(network or [])}
    recipe = load_recipe(PretrainConfig, config, settings)
    if print_config:
        print_recipe(recipe, json)
        return
    set_threads(threads)
    if dry_run:
        _show_plan(recipe, json)
    elif show_batch:
        _show_batch(recipe, restart, json)
    else:
        from ..train.pretrain import pretrain as run_pretraining

        _show_result(run_pretraining(recipe, restart=restart), json)


def _show_plan(recipe: PretrainConfig, json: bool) -> None:
    from ..train.plan import pretraining_plan

    plan = pretraining_plan(recipe)
    if json:
        print_json(plan)
        return
    for name, value in plan.items():
        print_text(f"{name.replace('_', ' '):<24}  {value:,}" if isinstance(value, int) else f"{name:<24}  {value}")


def _show_batch(recipe: PretrainConfig, restart: bool, json: bool) -> None:
    from dataclasses import asdict

    from ..train.pretrain import first_batch

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


def _show_result(result: PretrainResult, json: bool) -> None:
    found: dict[str, Any] = {
        "run": str(result.output),
        "model": str(result.model),
        "report": str(result.report),
        "steps": result.steps,
        "metrics": result.scores,
        "baseline": vars(result.baseline),
        "health": result.verdict.level,
        "reasons": list(result.verdict.reasons),
    }
    if json:
        print_json(found)
        return
    tell_if_finished(result.already_finished)
    print_metrics({"steps": result.steps, **result.scores})
    print_text(f"health: {result.verdict.level}")
    for reason in result.verdict.reasons:
        print_text(f"  {reason}")
    print_text(f"model:  {result.model}\nreport: {result.report}")
    if "backward_accuracy" in result.scores:
        print_text(f"next:   maskwright finetune tagging --model {result.model} --train train.conll -o runs/task")
    elif "clm_accuracy" in result.scores:
        print_text(f'next:   maskwright generate {result.model} "your text" --top-k 40')
    elif "denoise_accuracy" in result.scores:
        print_text(f"next:   maskwright finetune translation --model {result.model} --train a.txt b.txt -o runs/task")
    elif "mlm_accuracy" not in result.scores or "rtd_accuracy" in result.scores:
        print_text(f"next:   maskwright finetune classification --model {result.model} --train train.tsv -o runs/task")
    else:
        print_text(f'next:   maskwright fill-mask {result.model} "your text with one [MASK] ."')
