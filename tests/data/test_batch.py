"""The packed batch: what goes in comes out, runs cover every token once, order and chunks lose nothing."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.data.batch import Batch, chunks_by_tokens, deal, deal_equally_many, everything, order_by_length

sequences = st.lists(st.lists(st.integers(0, 1000), max_size=9), max_size=12)


@given(sequences)
def test_a_pack_holds_its_sequences_end_to_end(sequences):
    batch = Batch.from_sequences(sequences)
    assert batch.lengths == [len(sequence) for sequence in sequences]
    assert [part.tolist() for part in batch.input_ids.split(batch.lengths)] == sequences
    assert [part.tolist() for part in batch.position_ids.split(batch.lengths)] == [
        list(range(len(sequence))) for sequence in sequences
    ]
    assert batch.num_tokens == sum(batch.lengths) and len(batch) == batch.num_sequences == len(sequences)
    assert batch.input_ids.dtype == batch.position_ids.dtype == torch.int64
    assert batch.cu_seqlens.dtype == torch.int32


@given(sequences)
def test_runs_cover_every_token_once_in_order(sequences):
    batch = Batch.from_sequences(sequences)
    covered = 0
    for previous, run in zip((None, *batch.runs), batch.runs, strict=False):
        assert run.start == covered and run.count > 0 and run.length > 0
        assert previous is None or previous.length != run.length or 0 in batch.lengths
        covered += run.count * run.length
    assert covered == batch.num_tokens


def test_token_types_and_labels_travel_along():
    batch = Batch.from_sequences([[5, 6], [7]], token_types=[[0, 1], [1]], labels={"nsp": torch.tensor([0, 1])})
    assert batch.token_type_ids.tolist() == [0, 1, 1]
    more = batch.with_labels(mlm=torch.tensor([9]))
    assert set(more.labels) == {"nsp", "mlm"} and set(batch.labels) == {"nsp"}
    moved = more.to("cpu")
    assert moved.labels["mlm"].tolist() == [9] and moved.lengths == [2, 1]


@given(st.lists(st.integers(0, 50), max_size=60))
def test_order_by_length_is_stable_and_sorted(lengths):
    order = order_by_length(lengths)
    assert [(lengths[i], i) for i in order] == sorted((length, i) for i, length in enumerate(lengths))


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 120))
def test_chunks_hold_every_index_once_and_stay_within_the_budget(lengths, budget):
    order = order_by_length(lengths)
    chunks = list(chunks_by_tokens(order, lengths, budget))
    assert [index for chunk in chunks for index in chunk] == order.tolist()
    for chunk in chunks:
        assert len(chunk) == 1 or sum(lengths[index] for index in chunk) <= budget


# -- The deal of micro-batches: complete, balanced, and the same everywhere -------------------------------------------

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
