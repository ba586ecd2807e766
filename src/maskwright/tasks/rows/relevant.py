"""The class of a classifier of pairs that says that the second text answers, follows from or equals the first."""

from __future__ import annotations

import re
from collections.abc import Sequence

ENTAILMENT = "entailment"
# Names of positive and negative pairs in common data sets, as `plain_name` writes them.
TOGETHER = frozenset({
    ENTAILMENT, "relevant", "match", "duplicate", "paraphrase", "equivalent", "positive", "1", "yes", "true",
})  # fmt: skip
APART = frozenset({
    "contradiction", "neutral", "notentailment", "irrelevant", "notrelevant", "mismatch", "nomatch", "notduplicate",
    "notparaphrase", "notequivalent", "negative", "0", "no", "false",
})  # fmt: skip


def plain_name(label: str) -> str:
    """Returns a class name without case and separators: "Not Relevant" is "notrelevant"; a number by value."""
    text = label.strip().casefold()
    try:
        return f"{float(text):g}"
    except ValueError:
        return re.sub(r"[\s_\-]+", "", text)


def class_named(labels: Sequence[str], name: str) -> int | None:
    """Returns the index of the only class with this plain name, None without one."""
    found = [index for index, label in enumerate(labels) if plain_name(label) == name]
    return found[0] if len(found) == 1 else None


def relevant_class(labels: Sequence[str], declared: str | None = None) -> int | None:
    """Returns the index of the class of relevant pairs, None if neither the model nor the names say which it is.

    Args:
        labels: In the order of the outputs.
        declared: The class that the model folder names, one of the labels.

    The only class is it; of two, the one with a name of TOGETHER, where a 1 needs a 0 or a -1 beside it; of more, the
    entailment.
    """
    if declared is not None:
        return list(labels).index(declared)
    if len(labels) != 2:
        return 0 if len(labels) == 1 else class_named(labels, ENTAILMENT)
    names = [plain_name(label) for label in labels]
    found = [index for index, name in enumerate(names) if name in TOGETHER]
    if len(found) != 1 or (names[found[0]] == "1" and names[1 - found[0]] not in ("0", "-1")):
        return None
    return found[0]
