"""Questions on texts: how many have no answer, how long answers are, and contexts that are in both files."""

from __future__ import annotations

from collections import Counter

from ..core.plural import plural
from ..text.squad import Question
from .findings import Finding, Place
from .prints import short_name
from .rows import Item

_LONG_WORDS = 30


class QuestionFacts:
    """What the questions of one file have in common."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows = file, 0
        self.contexts: dict[int, int] = {}
        self.kinds: Counter[str] = Counter()
        self.num_long, self.long_places = 0, list[Place]()

    def see(self, item: Item) -> None:
        """Take a question in."""
        row: Question = item.row
        self.num_rows += 1
        self.contexts.setdefault(short_name(row.context), row.line)
        self.kinds["without an answer" if row.is_impossible else "with an answer"] += 1
        for gold in row.answers or ():
            if len(gold.text.split()) > _LONG_WORDS:
                self.num_long += 1
                if len(self.long_places) < 5:
                    self.long_places.append(Place(self.file, row.line, f"{len(gold.text.split())} words"))
                break

    def shown(self) -> Counter[str]:
        """Questions with an answer and without one."""
        return self.kinds

    def findings(self) -> list[Finding]:
        """In words."""
        found = []
        if self.num_long:
            many = plural(self.num_long, "question has", "questions have")
            sentence = f"{many} an answer of more than {_LONG_WORDS} words; none so long is found."
            found.append(Finding("long-answers", "warning", sentence, self.num_long, "", self.long_places))
        if self.num_rows and not self.kinds["with an answer"]:
            sentence = "No question has an answer: there is nothing to learn."
            found.append(Finding("constant-label", "problem", sentence, self.num_rows))
        return found


def against(train: QuestionFacts, dev: QuestionFacts) -> list[Finding]:
    """Contexts of dev that training has, and refusals that it never sees."""
    shared = [name for name in dev.contexts if name in train.contexts]
    found = []
    if shared:
        places = [
            Place(dev.file, dev.contexts[name], f"as in train, question {train.contexts[name]}") for name in shared[:5]
        ]
        sentence = (
            f"{plural(len(shared), 'dev context is', 'dev contexts are')} in training too, so dev scores flatter."
        )
        found.append(Finding("shared-contexts", "warning", sentence, len(shared), "Split by text.", places))
    if dev.kinds["without an answer"] and not train.kinds["without an answer"]:
        count = dev.kinds["without an answer"]
        sentence = (
            f"{plural(count, 'dev question has', 'dev questions have')} no answer, and training has none of that kind."
        )
        found.append(Finding("unknown-dev-labels", "problem", sentence, count))
    return found
