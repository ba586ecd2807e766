"""Question-answering checks: unanswerable questions, answer lengths, and contexts shared by train and dev."""

from __future__ import annotations

from collections import Counter

from ..core.plural import plural
from ..text.fingerprints import hash_text
from ..text.readers.squad import Question
from .findings import Finding, SourceLocation
from .rows import Item

_LONG_WORDS = 30


class QuestionStatistics:
    """Statistics of the questions of one file."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows = file, 0
        self.contexts: dict[int, int] = {}
        self.kinds: Counter[str] = Counter()
        self.num_long, self.long_places = 0, list[SourceLocation]()

    def see(self, item: Item) -> None:
        """Add a question to the statistics."""
        row: Question = item.row
        self.num_rows += 1
        self.contexts.setdefault(hash_text(row.context), row.line)
        self.kinds["without an answer" if row.is_impossible else "with an answer"] += 1
        for answer in row.answers or ():
            if len(answer.text.split()) > _LONG_WORDS:
                self.num_long += 1
                if len(self.long_places) < 5:
                    self.long_places.append(SourceLocation(self.file, row.line, f"{len(answer.text.split())} words"))
                break

    def shown(self) -> Counter[str]:
        """Count the questions with and without an answer."""
        return self.kinds

    def findings(self) -> list[Finding]:
        """Return the findings."""
        found = []
        if self.num_long:
            many = plural(self.num_long, "question has", "questions have")
            sentence = f"{many} an answer of more than {_LONG_WORDS} words; predicted spans are never that long."
            found.append(Finding("long-answers", "warning", sentence, self.num_long, "", self.long_places))
        if self.num_rows and not self.kinds["with an answer"]:
            sentence = "No question has an answer: there is nothing to learn."
            found.append(Finding("constant-label", "problem", sentence, self.num_rows))
        return found


def against(train: QuestionStatistics, dev: QuestionStatistics) -> list[Finding]:
    """Find dev contexts that occur in training, and unanswerable dev questions if training has none."""
    shared = [name for name in dev.contexts if name in train.contexts]
    found = []
    if shared:
        places = [
            SourceLocation(dev.file, dev.contexts[name], f"as in train, question {train.contexts[name]}")
            for name in shared[:5]
        ]
        sentence = (
            f"{plural(len(shared), 'dev context is', 'dev contexts are')} also in training, so dev scores are too high."
        )
        found.append(Finding("shared-contexts", "warning", sentence, len(shared), "Split by context.", places))
    if dev.kinds["without an answer"] and not train.kinds["without an answer"]:
        count = dev.kinds["without an answer"]
        sentence = (
            f"{plural(count, 'dev question has', 'dev questions have')} no answer, but every training question has one."
        )
        found.append(Finding("unknown-dev-labels", "problem", sentence, count))
    return found
