"""The example data is what its README says."""

from __future__ import annotations

import csv
import re
from collections import Counter
from itertools import combinations

from conventions.sources import REPOSITORY


def test_the_tickets_are_many_varied_and_unbalanced():
    with (REPOSITORY / "examples" / "support_tickets.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) >= 450
    assert len({row["text"] for row in rows}) == len(rows)
    counts = Counter(row["label"] for row in rows)
    assert set(counts) == {"Hardware", "Software", "Billing"}
    assert max(counts.values()) > 1.5 * min(counts.values())
    assert Counter(row["split"] for row in rows).keys() == {"train", "test"}
    words = [re.findall(r"\w+", row["text"].lower()) for row in rows]
    trigrams = [set(zip(text, text[1:], text[2:], strict=False)) for text in words]
    for one, other in combinations([found for found in trigrams if len(found) >= 3], 2):
        assert len(one & other) <= 0.6 * min(len(one), len(other))
