"""The `maskwright` command: one table of verbs, and the one place where errors become exit codes."""

from __future__ import annotations

import signal
import sys
import warnings
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from .. import __version__
from ..core import progress
from ..core.errors import MaskwrightError
from . import (
    answer,
    bench,
    bench_task,
    calibrate,
    cells,
    cluster,
    complete,
    complexity,
    convert,
    distill,
    doctor,
    embed,
    ensemble,
    evaluate,
    fill_mask,
    finetune,
    generate,
    gradients,
    inspect,
    ladder,
    layer_lab,
    lengths,
    lessons,
    next_sentence,
    plan,
    predict,
    presets,
    pretrain,
    probe,
    rare_lab,
    search,
    similarity,
    studio,
    tokenizer,
    translate,
    vectors,
)
from .common import show_any_text
from .several import SeveralValues

EPILOG = "Start here: maskwright pretrain --preset bert-mini -o runs/a corpus.txt"

app = typer.Typer(
    name="maskwright",
    help="From your own text to a language encoder that you trained, measured and use.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(tokenizer.app, name="tokenizer", rich_help_panel="Train")
app.add_typer(doctor.app, name="doctor", rich_help_panel="Know")
app.add_typer(lessons.app, name="lessons", rich_help_panel="Know")
for name, command, panel in (
    ("pretrain", pretrain.pretrain, "Train"),
    ("finetune", finetune.finetune, "Train"),
    ("distill", distill.distill, "Train"),
    ("vectors", vectors.vectors, "Train"),
    ("layer-lab", layer_lab.layer_lab, "Train"),
    ("bench-task", bench_task.bench_task, "Train"),
    ("evaluate", evaluate.evaluate, "Use"),
    ("calibrate", calibrate.calibrate, "Use"),
    ("ensemble", ensemble.ensemble, "Use"),
    ("predict", predict.predict, "Use"),
    ("answer", answer.answer, "Use"),
    ("fill-mask", fill_mask.fill_mask, "Use"),
    ("generate", generate.generate, "Use"),
    ("complete", complete.complete, "Use"),
    ("translate", translate.translate, "Use"),
    ("next-sentence", next_sentence.next_sentence, "Use"),
    ("embed", embed.embed, "Use"),
    ("similarity", similarity.similarity, "Use"),
    ("search", search.search, "Use"),
    ("cluster", cluster.cluster, "Use"),
    ("convert", convert.convert, "Use"),
    ("studio", studio.studio, "Use"),
    ("presets", presets.presets, "Know"),
    ("plan", plan.plan, "Know"),
    ("bench", bench.bench, "Know"),
    ("complexity", complexity.complexity, "Know"),
    ("gradients", gradients.gradients, "Know"),
    ("lengths", lengths.lengths, "Know"),
    ("cells", cells.cells, "Know"),
    ("inspect", inspect.inspect, "Know"),
    ("probe", probe.probe, "Know"),
    ("rare-lab", rare_lab.rare_lab, "Know"),
    ("ladder", ladder.ladder, "Know"),
):
    app.command(name, cls=SeveralValues if name == "finetune" else None, rich_help_panel=panel)(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maskwright {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM as Ctrl-C: what is half written is removed on the way out."""
    raise KeyboardInterrupt


def _say(message: Warning | str, *place: Any) -> None:
    """A warning of the library in the form of our own, without the line of code that raised it."""
    progress.warn(str(message))


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 our failure, 2 bad input or usage, 130 interrupted."""
    debug = "--debug" in sys.argv[1:]
    show_any_text()
    if not debug:
        warnings.showwarning = _say  # type: ignore[assignment]
    try:
        signal.signal(signal.SIGTERM, _interrupt)  # training, while it runs, saves at both signals instead
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except MaskwrightError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        typer.echo(
            f"internal error: {type(error).__name__}: {error}\n"
            "This is a fault of maskwright, not of your input; run it again with --debug and report what it prints.",
            err=True,
        )
        sys.exit(1)
