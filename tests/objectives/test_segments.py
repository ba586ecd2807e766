"""Which text becomes segment A and B, and the stream of examples."""

from itertools import count, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

from maskwright.core.errors import InputError
from maskwright.core.randomness import generator
from maskwright.objectives.segments import plan_ordered, plan_pairs, plan_singles, sentence_bounds
from maskwright.objectives.stream import ExampleStream, split_documents
from objectives.packing import CLS, SEP, Documents, batch_of, objective_of

CORPUS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=12), min_size=2, max_size=8)


def bounds_of(corpus):
    return {number: sentence_bounds(np.array(lengths)) for number, lengths in enumerate(corpus)}


@given(lengths=st.lists(st.integers(0, 500), max_size=20))
def test_bounds_are_the_sentence_ends_without_empty_sentences(lengths):
    bounds = sentence_bounds(np.array(lengths, dtype=np.int64))
    assert bounds == sorted({0, *np.cumsum(lengths).tolist()})


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_single_segments_partition_every_document(corpus, seed, limit):
    examples = plan_singles(bounds_of(corpus), limit, 0.1, generator(seed, "examples"))
    for document, lengths in enumerate(corpus):
        spans = [(e.a_start, e.a_stop) for e in examples if e.a_document == document]
        assert spans[0][0] == 0
        assert spans[-1][1] == sum(lengths)
        assert all(left[1] == right[0] for left, right in zip(spans, spans[1:], strict=False))
        assert all(0 < stop - start <= limit for start, stop in spans)


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_examples_are_full_until_their_document_ends(corpus, seed, limit):
    bounds = bounds_of(corpus)
    for example in plan_singles(bounds, limit, 0.0, generator(seed, "examples")):
        is_last = example.a_stop == bounds[example.a_document][-1]
        assert is_last or example.a_stop - example.a_start == limit
    for example in plan_pairs(bounds, limit, 0.0, generator(seed, "examples")):
        size = example.a_stop - example.a_start + example.b_stop - example.b_start
        runs_out = bounds[example.a_document][-1] - example.a_start < limit
        partner_runs_out = example.b_stop == bounds[example.b_document][-1]
        assert size == limit or runs_out or partner_runs_out


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_laws_of_pairs(corpus, seed, limit):
    bounds = bounds_of(corpus)
    examples = plan_pairs(bounds, limit, 0.1, generator(seed, "examples"))
    if sum(sum(lengths) >= 2 for lengths in corpus) < 2:
        assert not examples, "a random B needs another document that has pairs"
        return
    covered = dict.fromkeys(bounds, 0)
    for example in examples:
        a, b = example.a_stop - example.a_start, example.b_stop - example.b_start
        assert a > 0
        assert b > 0
        assert a + b <= limit
        assert 0 < example.b_start < example.b_stop <= bounds[example.b_document][-1]
        assert example.is_random == (example.b_document != example.a_document)
        ends = bounds[example.a_document]
        if not example.is_random:
            assert example.a_stop == example.b_start, "the true partner does not follow A"
        if any(example.a_start < end < example.a_stop for end in ends) or not example.is_random:
            halved = not any(example.a_start < end < max(example.a_stop, example.b_stop) for end in ends)
            assert example.a_stop in ends or halved, "A ends inside a sentence though one ends in its span"
        # A halved sentence with a random partner leaves its second half to another epoch.
        assert example.a_start - covered[example.a_document] <= limit // 2, "text was skipped"
        covered[example.a_document] = max(covered[example.a_document], example.a_stop)
        if not example.is_random:
            covered[example.a_document] = max(covered[example.a_document], example.b_stop)
    for document, edges in bounds.items():
        assert edges[-1] - covered[document] <= limit // 2 + 1


def test_half_of_the_partners_are_random():
    rng = np.random.default_rng(0)
    corpus = [rng.integers(3, 60, size=rng.integers(8, 40)).tolist() for _ in range(2000)]
    examples = plan_pairs(bounds_of(corpus), 125, 0.1, generator(3, "examples"))
    assert len(examples) > 10_000
    assert abs(np.mean([example.is_random for example in examples]) - 0.5) < 0.01


# -- Sentence order: two neighboring segments, swapped in half of the examples ----------------------------------------

ANY_CORPUS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=12), min_size=1, max_size=8)


@given(corpus=ANY_CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_a_and_b_are_neighbors_and_only_lonely_sentences_lose_tokens(corpus, seed, limit):
    bounds = bounds_of(corpus)
    covered = {document: np.zeros(edges[-1], dtype=int) for document, edges in bounds.items()}
    for example in plan_ordered(bounds, limit, 0.1, generator(seed, "examples")):
        a, b = (example.a_start, example.a_stop), (example.b_start, example.b_stop)
        first, second = (b, a) if example.is_swapped else (a, b)
        assert example.a_document == example.b_document and not example.is_random
        assert first[0] < first[1] == second[0] < second[1] <= first[0] + limit
        assert len({place in bounds[example.a_document] for place in (*first, *second)}) == 1, "one cut, one whole"
        covered[example.a_document][first[0] : second[1]] += 1
    for document, edges in bounds.items():
        assert covered[document].max() <= 1
        for start, stop in pairwise(edges):
            seen = covered[document][start:stop]
            most = max(min(stop - start, limit) // 8, 1)  # skipped at either end
            assert seen.all() or stop - start - seen.sum() <= 2 * most + 1, "too much of a sentence is never seen"


def test_half_are_swapped():
    examples = plan_ordered({0: list(range(0, 60_001, 6))}, 24, 0.1, generator(0, "examples"))
    share = np.mean([example.is_swapped for example in examples])
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(len(examples))


def test_the_label_says_which_segment_stands_first_in_the_text():
    objective, documents = objective_of("mlm+sop"), Documents()
    batch = batch_of(objective)
    ids = batch.input_ids.clone()
    ids[batch.labels["mlm_positions"]] = batch.labels["mlm"]
    text = [" ".join(map(str, tokens.tolist())) for tokens in documents.tokens]
    assert set(batch.labels["sop"].tolist()) == {0, 1}
    for row, label in zip(ids.split(batch.lengths), batch.labels["sop"].tolist(), strict=True):
        body = row.tolist()
        assert (body[0], body[-1]) == (CLS, SEP)
        middle = body.index(SEP)
        a, b = body[1:middle], body[middle + 1 : -1]
        joined = " ".join(map(str, b + a if label else a + b))
        assert any(joined in document for document in text)


def test_a_text_of_single_tokens_is_refused_instead_of_waiting_for_ever():
    class Single:
        def sentence_lengths_of(self, document):
            return np.array([1])

        def document_lengths(self):
            return np.ones(4, dtype=np.int64)

    stream = ExampleStream(Single(), np.arange(4), objective_of("mlm+sop").plan, 0)
    with pytest.raises(InputError, match="no example"):
        stream.take(1)


# -- What tells the label of a pair must be its meaning: lengths, places and ragged ends alone must not ---------------


CHANCE = 0.52  # 20,000 examples, half of them to be classified: four standard errors above one half
WANTED = 20_000
LIMIT = 125


# Of each shape of corpus: documents, sentences of one (from, below), tokens of a sentence (from, below).
SHAPES = {
    "short": (3000, (2, 6), (3, 40)),
    "one sentence": (6000, (1, 2), (3, 60)),
    "paragraphs": (1000, (1, 6), (50, 400)),
    "two sentences": (4000, (2, 3), (3, 40)),
    "mixed": (800, (1, 150), (3, 60)),
}
MOSTLY_SLOW = [pytest.param(name, marks=pytest.mark.slow) if "sentence" in name else name for name in SHAPES]


def _corpus(shape, seed):
    rng = np.random.default_rng(seed)
    documents, sentences, tokens = SHAPES[shape]
    low, high = np.log(sentences)  # short documents are more common than long ones
    sizes = np.minimum(np.exp(rng.uniform(low, high, size=documents)).astype(int), sentences[1] - 1)
    return [rng.integers(*tokens, size=size).tolist() for size in sizes.tolist()]


def _examples(shape, plan):
    """Examples with the sentence bounds of A's and B's document, shuffled; of as many corpora as it takes."""
    found = []
    for seed in count():
        bounds = {number: sentence_bounds(np.array(lengths)) for number, lengths in enumerate(_corpus(shape, seed))}
        examples = plan(bounds, LIMIT, 0.1, generator(seed, "examples"))
        found += [(one, bounds[one.a_document], bounds[one.b_document]) for one in examples]
        if len(found) >= WANTED:
            break
    order = np.random.default_rng(1).permutation(len(found))[:WANTED]
    return [found[place] for place in order]


def _place(start, stop, edges):
    """All that can be said of a span in its document without its text."""
    size = edges[-1]
    ragged = [start in edges, stop in edges]
    sentence = np.searchsorted(edges, start)
    return [start, stop, start / size, stop / size, size - stop, size, len(edges), sentence, *ragged]


def _accuracy(features, labels):
    table, wanted, half = np.array(features, dtype=float), np.array(labels), len(labels) // 2
    classifier = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(table[:half], wanted[:half])
    return float((classifier.predict(table[half:]) == wanted[half:]).mean())


@pytest.mark.parametrize("shape", MOSTLY_SLOW)
def test_places_and_lengths_do_not_tell_a_random_b(shape):
    """With the place of A and that of B both known the question is whether they touch, so one of them is known."""
    labels, given_a, given_b = [], [], []
    for one, a_edges, b_edges in _examples(shape, plan_pairs):
        a, b = one.a_stop - one.a_start, one.b_stop - one.b_start
        labels.append(one.is_random)
        given_a.append([a, b, a + b, a - b, *_place(one.a_start, one.a_stop, a_edges)])
        given_b.append([a, b, a + b, a - b, *_place(one.b_start, one.b_stop, b_edges)])
    assert abs(np.mean(labels) - 0.5) < 0.015
    assert _accuracy(given_b, labels) < CHANCE
    assert _accuracy(given_a, labels) < CHANCE


@pytest.mark.parametrize("shape", MOSTLY_SLOW)
def test_lengths_and_ragged_ends_do_not_tell_swapped_segments(shape):
    labels, features = [], []
    for one, edges, _ in _examples(shape, plan_ordered):
        a, b = one.a_stop - one.a_start, one.b_stop - one.b_start
        ends = [place in edges for place in (one.a_start, one.a_stop, one.b_start, one.b_stop)]
        labels.append(one.is_swapped)
        features.append([a, b, a + b, a - b, *ends])
    assert abs(np.mean(labels) - 0.5) < 0.015
    assert _accuracy(features, labels) < CHANCE


# -- The stream of examples ------------------------------------------------------------------------------------------


class Lengths:
    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        self.sentences = [rng.integers(1, 30, size=rng.integers(1, 9)) for _ in range(count)]

    def sentence_lengths_of(self, document):
        return self.sentences[document]

    def document_lengths(self):
        return np.array([lengths.sum() for lengths in self.sentences])


def stream_over(corpus, seed=0):
    plan = lambda bounds, rng: plan_singles(bounds, 40, 0.1, rng)  # noqa: E731
    return ExampleStream(corpus, np.arange(len(corpus.sentences)), plan, seed, section_tokens=300)


def test_an_epoch_sees_every_token_once():
    corpus = Lengths(50)
    stream = stream_over(corpus)
    assert len(stream.sections(0)) > 3
    seen = 0
    while stream.position.epoch == 0:
        (example,) = stream.take(1)
        seen += example.a_stop - example.a_start
    assert seen == corpus.document_lengths().sum()


@given(first=st.integers(0, 200), sizes=st.lists(st.integers(1, 40), max_size=6))
def test_a_restored_stream_goes_on_with_the_same_examples(first, sizes):
    corpus = Lengths(30)
    whole, cut = stream_over(corpus), stream_over(corpus)
    whole.take(first)
    cut.restore(whole.state())
    for size in sizes:
        assert whole.take(size) == cut.take(size)


@given(count=st.integers(1, 60), share=st.floats(0, 0.3), seed=st.integers(0, 20))
def test_held_out_documents_are_apart_and_enough(count, share, seed):
    lengths = np.random.default_rng(seed).integers(1, 1000, size=count)
    training, held_out = split_documents(lengths, share, seed)
    assert sorted([*training, *held_out]) == list(range(count))
    assert len(held_out) == 0 or (len(held_out) >= 2 and len(training) >= 2)
