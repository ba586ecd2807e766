"""The 15 % and the 80 / 10 / 10, on real sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.randomness import generator
from maskwright.objectives.masked import Masker

VOCAB, MASK, SPECIAL = 500, 4, frozenset(range(5))


def pack(lengths: list[int], seed: int = 0) -> np.ndarray:
    """Sequences [CLS] ... [SEP] of these lengths, end to end."""
    rng = np.random.default_rng(seed)
    rows = [np.concatenate([[2], rng.integers(5, VOCAB, size=length - 2), [3]]) for length in lengths]
    return np.concatenate(rows).astype(np.int64)


def test_a_hundred_thousand_tokens_give_fifteen_per_cent_and_eighty_ten_ten():
    lengths = [128] * 900
    ids = pack(lengths)
    masked = Masker(MASK, SPECIAL, VOCAB)(ids, np.array(lengths), generator(0, "masks"))
    ordinary = 126 * 900
    assert abs(len(masked.labels) / ordinary - 0.15) < 0.003
    became = masked.input_ids[masked.positions]
    assert abs((became == MASK).mean() - 0.8) < 0.01
    kept = (became == masked.labels).mean()
    assert abs(kept - (0.1 + 0.1 / (VOCAB - 5))) < 0.01
    assert abs(1 - (became == MASK).mean() - kept - 0.1) < 0.01


@pytest.mark.parametrize("whole_words", [False, True])
@given(lengths=st.lists(st.integers(2, 40), min_size=1, max_size=12), seed=st.integers(0, 1000))
def test_laws_of_masking(lengths: list[int], seed: int, whole_words: bool):
    ids = pack(lengths, seed)
    continues = np.arange(VOCAB) % 3 == 0 if whole_words else None
    masked = Masker(MASK, SPECIAL, VOCAB, continues_word=continues)(ids, np.array(lengths), generator(seed, "masks"))
    assert not np.isin(ids[masked.positions], list(SPECIAL)).any(), "a special token was selected"
    assert (masked.labels == ids[masked.positions]).all()
    untouched = np.ones(len(ids), dtype=bool)
    untouched[masked.positions] = False
    assert (masked.input_ids[untouched] == ids[untouched]).all()
    assert not np.isin(masked.input_ids[masked.positions], list(SPECIAL - {MASK})).any()
    ends = np.cumsum(lengths)
    hit = set(np.searchsorted(ends, masked.positions, side="right").tolist())
    assert hit == {number for number, length in enumerate(lengths) if length > 2}, "a sequence without a label"
    if continues is not None:
        chosen = set(masked.positions.tolist())
        for position in range(1, len(ids)):
            if continues[ids[position]] and ids[position] > 4 and ids[position - 1] > 4:
                assert (position in chosen) == (position - 1 in chosen), "half a word was selected"
