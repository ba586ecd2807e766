"""`maskwright answer`: extractive question answering."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import ConfigError, InputError
from .common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from .using import MaxLengthOption, warn_of_cuts

if TYPE_CHECKING:
    from ..inference.answer import Answer


def answer(
    model: Annotated[str, typer.Argument(help="Question-answering model: a folder, or a Hugging Face Hub model ID.")],
    question: Annotated[list[str], typer.Option("--question", help="Question. Repeatable.")],
    context: Annotated[str | None, typer.Option("--context", help="Text that contains the answer.")] = None,
    context_file: Annotated[Path | None, typer.Option("--context-file", help="Text file with the context.")] = None,
    top_k: Annotated[int, typer.Option(min=1, max=20, help="Number of candidate spans to show.")] = 3,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Predict no answer above this score margin.  \\[default: as trained]"),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show word positions of the answer, from 1.")] = False,
    max_length: MaxLengthOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Extract answer spans from a text of any length.

    Examples:

        maskwright answer runs/q/model --question "Who sleeps?" --context "The old man sleeps." --json

        maskwright answer runs/q/model --question "Who won?" --question "Where?" --context-file report.txt --top-k 5

        maskwright answer runs/q/model --question "Who sleeps?" --context "The old man sleeps." --trace
    """
    if (context is None) == (context_file is None):
        raise ConfigError("Pass either --context or --context-file.")
    text = context if context_file is None else _read(context_file)
    set_threads(threads)
    from ..api import open_answerer

    answerer = open_answerer(model, max_length=max_length, threshold=threshold, device=device, precision=precision)
    asked = [(one, text or "") for one in question]
    for (one, _), found in zip(asked, answerer.answer(asked, top_k), strict=True):
        traced = answerer.trace(one, text or "", found) if trace else None
        if json:
            shown = {"question": one, **found.answer, "candidates": found.candidates}
            print_json(shown | ({} if traced is None else {"trace": traced.to_json()}))
            continue
        _show(one, found)
        if traced is not None:
            print_text(str(traced))
    warn_of_cuts(answerer.counts)


def _read(path: Path) -> str:
    from ..text.formats.files import read_lines

    lines = list(read_lines(path))
    for line in lines:
        if line.fault:
            raise InputError(f"{path}:{line.number}: {line.fault}.")
    return "\n".join(line.text for line in lines)


def _show(question: str, found: Answer) -> None:
    rows = [
        (entry["answer"], f"{entry['start']}-{entry['end']}", f"{entry['score']:.4f}") for entry in found.candidates
    ]
    rows.append(("(no answer)", "", f"{found.answer['no_answer_score']:.4f}"))
    title = f"{question}   {found.answer['answer'] or 'no answer'}"
    print_table(("answer", "characters", "probability"), rows, title=title, right=("characters", "probability"))
