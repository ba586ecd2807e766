"""Tasks that predict targets: their rows, and metrics that add up over rows."""

from __future__ import annotations

import math

import pytest
import torch

from maskwright.core.errors import InputError
from maskwright.tasks.generation import require_rows, with_targets
from maskwright.tasks.translation import Translation
from maskwright.text.readers.tables import Row

GOOD, EMPTY = Row("Ein Hund.", None, "A dog.", 1, "a.tsv"), Row("Eine Katze.", None, "", 1_204, "a.tsv")


def test_rows_without_a_target_are_refused_or_left_out():
    with pytest.raises(InputError, match=r"a.tsv has rows without a target, the first at line 1,204.*--skip-bad-rows"):
        with_targets([GOOD, EMPTY], "a.tsv", skip_bad_rows=False)
    assert with_targets([GOOD, EMPTY], "a.tsv", skip_bad_rows=True) == [GOOD]


@pytest.mark.parametrize("rows", [[], [EMPTY]])
def test_where_nothing_is_left_that_is_said(rows: list[Row]):
    with pytest.raises(InputError, match="a.tsv has no row with a target"):
        with_targets(rows, "a.tsv", skip_bad_rows=True)


def test_training_needs_a_row():
    with pytest.raises(InputError, match="The training data has no row"):
        require_rows([], None)


def test_scores_are_those_of_all_tokens_and_not_of_rows():
    logits = torch.tensor([[2.0, 1.0, 1.0], [3000.0, 0.0, 3.0]])  # loss, correct predictions, tokens
    task = Translation()
    found = task.score(logits, None)  # type: ignore[arg-type]
    assert found.metrics[task.main_metric] == 1 / 4 and found.loss == 3002 / 4
    first, second = task.answers(logits, None)  # type: ignore[arg-type]
    assert first["score"] == 1 and first["perplexity"] == pytest.approx(math.exp(2))
    assert second["score"] == 0 and math.isfinite(second["perplexity"])
    assert task.is_right(None, 0, first) and not task.is_right(None, 1, second)  # type: ignore[arg-type]
