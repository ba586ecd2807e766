"""Counts in sentences."""

from __future__ import annotations

import pytest

from maskwright.core.util import plural
from maskwright.doctor.checks import Findings


@pytest.mark.parametrize(("count", "words"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12345, "12,345 rows")])
def test_a_count_takes_the_form_of_its_noun(count, words):
    assert plural(count, "row") == words


def test_the_verb_goes_with_the_noun():
    assert plural(1, "class is", "classes are") == "1 class is"
    assert plural(3, "class is", "classes are") == "3 classes are"


@pytest.mark.parametrize(("count", "sentence"), [(1, "1 row has no label."), (2000, "2,000 rows have no label.")])
def test_a_finding_of_one_row_reads_as_one(count, sentence):
    findings = Findings("rows.tsv")
    for line in range(count):
        findings.add("no-label", line)
    assert findings.listed()[0].sentence == sentence
