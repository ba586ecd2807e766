"""Tokenized rows: packed batches and results that come back in the order of the rows."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.tasks.examples import map_batches, tokenize_rows
from tasks.standins import SumModel, Words, row

texts = st.lists(st.text("abcdefgh", max_size=12), min_size=1, max_size=25)
CPU = torch.device("cpu")


@given(texts, st.integers(1, 60))
def test_results_do_not_depend_on_how_the_rows_are_cut_into_batches(words, budget):
    model = SumModel()
    examples = tokenize_rows([row(text) for text in words], Words(), None)
    together = map_batches(examples, model.logits, device=CPU, batch_tokens=budget)
    for index in range(len(words)):
        alone = model.logits(examples.batch([index]))
        assert torch.allclose(together[index], alone[0], atol=1e-6)


@given(texts, st.integers(1, 60))
def test_batches_have_at_most_the_requested_tokens_unless_one_row_exceeds_them(words, budget):
    model = SumModel()
    examples = tokenize_rows([row(text) for text in words], Words(), None)
    map_batches(examples, model.logits, device=CPU, batch_tokens=budget)
    assert all(tokens <= max(budget, examples.lengths.max()) for tokens in model.seen)
    assert sum(model.seen) == examples.lengths.sum()


@given(texts, st.randoms())
def test_a_batch_is_sorted_by_length_and_says_which_row_is_which(words, random):
    examples = tokenize_rows([row(text) for text in words], Words(), None, torch.arange(len(words)))
    indices = random.sample(range(len(words)), k=random.randint(1, len(words)))
    batch = examples.batch(indices)
    assert batch.lengths == sorted(batch.lengths)
    assert sorted(batch.labels["example"].tolist()) == sorted(indices)
    assert torch.equal(batch.labels["sequence"], batch.labels["example"])
    for sequence, index in zip(batch.input_ids.split(batch.lengths), batch.labels["example"], strict=True):
        assert sequence.tolist() == examples.input_ids[index].tolist()


def test_cut_rows_are_counted():
    examples = tokenize_rows([row("abc"), row("abcdef"), row("abcdefgh")], Words(), 5)
    assert examples.num_truncated == 2
    assert examples.lengths.tolist() == [4, 5, 5]


def test_results_can_be_used_outside_inference_mode():
    model = SumModel()
    result = map_batches(tokenize_rows([row("ab")], Words(), None), model.logits, device=CPU)
    result += 1
    assert not result.is_inference()
    assert not result.requires_grad
