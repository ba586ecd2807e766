"""`maskwright answer`: extractive question answering."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.config import check, option
from ..core.errors import InputError
from ..core.util import UNTRAINED
from .common import JsonFlag, print_json, print_table, print_text
from .settings import takes_settings
from .using import MAX_LENGTH, Hardware, warn_of_cuts

if TYPE_CHECKING:
    from ..inference.answer import Answer


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(Hardware):
    """Settings of `maskwright answer`. Raises ConfigError unless there is one context."""

    COMMAND: ClassVar[str] = "answer"

    model: str = option(help="Question-answering model: a folder, or a Hugging Face Hub model ID.", is_argument=True)
    question: tuple[str, ...] = option(help="Question. Repeatable.")
    context: str | None = option(None, "Text that contains the answer.")
    context_file: Path | None = option(None, "Text file with the context.")
    top_k: int = option(3, "Number of candidate spans to show.", minimum=1, maximum=20)
    threshold: float | None = option(
        None,
        "Predict no answer if its score exceeds that of the best span by more than this.",
        default_help="as trained",
    )
    trace: bool = option(False, "Show word positions of the answer, from 1.")
    max_length: int | None = option(None, MAX_LENGTH)
    untrained: bool = option(False, UNTRAINED)

    def __post_init__(self) -> None:
        check((self.context is None) != (self.context_file is None), "Pass either --context or --context-file.")


@takes_settings(AnswerSettings)
def answer(settings: AnswerSettings, json: JsonFlag = False) -> None:
    """Extract answer spans from a text of any length.

    Examples:

        maskwright answer runs/q/model --question "Who sleeps?" --context "The old man sleeps." --json

        maskwright answer runs/q/model --question "Who won?" --question "Where?" --context-file report.txt --top-k 5

        maskwright answer runs/q/model --question "Who sleeps?" --context "The old man sleeps." --trace
    """
    text = settings.context or "" if settings.context_file is None else _read(settings.context_file)
    from ..api import open_answerer

    answerer = open_answerer(
        settings.model,
        max_length=settings.max_length,
        threshold=settings.threshold,
        device=settings.device,
        precision=settings.precision,
        untrained=settings.untrained,
    )
    asked = [(one, text) for one in settings.question]
    for (one, _), found in zip(asked, answerer.answer(asked, settings.top_k), strict=True):
        traced = answerer.trace(one, text, found) if settings.trace else None
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
