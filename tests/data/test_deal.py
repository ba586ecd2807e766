"""The deal of micro-batches: complete, balanced, and the same everywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maskwright.data.deal import deal, deal_equally_many, everything

TOKENS = st.lists(st.integers(1, 10_000), min_size=1, max_size=24)


@given(TOKENS, st.integers(1, 8))
def test_every_micro_batch_is_dealt_once_in_ascending_order(tokens: list[int], processes: int):
    dealt = deal(tokens, processes)
    assert sorted(number for own in dealt for number in own) == everything(tokens)
    assert all(own == sorted(own) for own in dealt)


@given(TOKENS, st.integers(1, 8))
def test_loads_differ_by_one_micro_batch_at_most(tokens: list[int], processes: int):
    loads = [sum(tokens[number] for number in own) for own in deal(tokens, processes)]
    assert max(loads) - min(loads) <= max(tokens)


def test_as_many_micro_batches_as_processes_are_one_each():
    assert sorted(deal([5, 9, 7, 9], 4)) == [[0], [1], [2], [3]]


@given(TOKENS, st.integers(1, 9))
def test_sharded_training_gives_every_process_equally_many(tokens: list[int], processes: int):
    found = deal_equally_many(tokens, processes)
    assert {len(own) for own in found} == {-(-len(tokens) // processes)}
    assert sorted(number for own in found for number in own if number >= 0) == list(range(len(tokens)))
    assert all(tokens[number] == min(tokens) for own in found for number in own if number < 0)
