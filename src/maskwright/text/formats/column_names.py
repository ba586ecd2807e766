"""Column names of tables that are recognized: those of well-known benchmarks and tools."""

from __future__ import annotations

# In order of precedence: a table with `text` and `sentence1` is read by `text`.
TEXT_NAMES: tuple[tuple[str, ...], ...] = (
    ("text", "text_pair"),
    ("text",),
    ("sentence1", "sentence2"),
    ("#1 String", "#2 String"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "context"),
    ("sentence",),
    ("source", "target"),
    ("prompt",),
    ("data",),
)
LABEL_NAMES = ("label", "labels", "score", "gold_label", "is_duplicate", "Quality")
# A cell "quality" alone does not make a header: it may be a text.
KNOWN_NAMES = frozenset(name.casefold() for names in (*TEXT_NAMES[:-1], LABEL_NAMES[:-1]) for name in names)
