"""The stream of examples: every document once an epoch, and exact continuation from three integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maskwright.objectives.segments import plan_singles
from maskwright.objectives.stream import ExampleStream, split_documents


class Corpus:
    """Sentence lengths by document, as token shards give them."""

    def __init__(self, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.sentences = [rng.integers(1, 30, size=rng.integers(1, 9)) for _ in range(count)]

    def sentence_lengths_of(self, document: int) -> np.ndarray:
        return self.sentences[document]

    def document_lengths(self) -> np.ndarray:
        return np.array([lengths.sum() for lengths in self.sentences])


def stream_over(corpus: Corpus, seed: int = 0) -> ExampleStream:
    plan = lambda bounds, rng: plan_singles(bounds, 40, 0.1, rng)  # noqa: E731
    return ExampleStream(corpus, np.arange(len(corpus.sentences)), plan, seed, section_tokens=300)


def test_an_epoch_sees_every_token_once():
    corpus = Corpus(50)
    stream = stream_over(corpus)
    assert len(stream.sections(0)) > 3
    seen = 0
    while stream.position.epoch == 0:
        (example,) = stream.take(1)
        seen += example.a_stop - example.a_start
    assert seen == corpus.document_lengths().sum()


@given(first=st.integers(0, 200), sizes=st.lists(st.integers(1, 40), max_size=6))
def test_a_restored_stream_goes_on_with_the_same_examples(first: int, sizes: list[int]):
    corpus = Corpus(30)
    whole, cut = stream_over(corpus), stream_over(corpus)
    whole.take(first)
    cut.restore(whole.state())
    for size in sizes:
        assert whole.take(size) == cut.take(size)


@given(count=st.integers(1, 60), share=st.floats(0, 0.3), seed=st.integers(0, 20))
def test_held_out_documents_are_apart_and_enough(count: int, share: float, seed: int):
    lengths = np.random.default_rng(seed).integers(1, 1000, size=count)
    training, held_out = split_documents(lengths, share, seed)
    assert sorted([*training, *held_out]) == list(range(count))
    assert len(held_out) == 0 or (len(held_out) >= 2 and len(training) >= 2)
