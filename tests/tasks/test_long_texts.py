"""Tokenized rows in packed batches, and long texts in windows."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import ConfigError, InputError, ModelFolderError
from maskwright.inference.predict import Predictor
from maskwright.tasks.base import task_from_json
from maskwright.tasks.classification import Classification
from maskwright.tasks.examples import map_batches, tokenize_rows
from maskwright.tasks.windows import TRAIN_TOKENS, LongTexts, window_rows
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.tokenizers.tokenizer import Tokenizer
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


# -- Long texts in windows -------------------------------------------------------------------------------------------

WORDS = sorted({word for text in TEXTS for word in text.split()})
LONG = " ".join(TEXTS) + " " + " ".join(reversed(TEXTS))

some_words = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
ways = st.builds(LongTexts, stride=st.none() | st.integers(0, 20), pool=st.sampled_from(["mean", "max"]))


@cache
def other_tokenizer(kind):
    return Tokenizer.train_from_iterator(iter(TEXTS * 3), kind=kind, vocab_size=300)


@cache
def network(num_labels=3, **options):
    return tiny("classification", labels=[f"l{n}" for n in range(num_labels)], **options)


def task(pool="mean", multi_label=False, **options):
    return Classification(["l0", "l1", "l2"], multi_label, long=LongTexts(pool=pool, **options))


def own(windows, tok, index, ids_before=1):
    return windows.input_ids[index][ids_before:-1].tolist()


@settings(deadline=None, max_examples=40)
@given(
    text=some_words, max_length=st.integers(3, 24), long=ways, kind=st.sampled_from(["wordpiece", "byte-bpe", "char"])
)
def test_every_token_is_in_a_window_and_none_is_too_long(text, max_length, long, kind):
    tok = tokenizer() if kind == "wordpiece" else other_tokenizer(kind)
    examples = window_rows([row(text)], tok, max_length, long)
    whole = tok(text)
    assert all(len(ids) <= max_length for ids in examples.input_ids)
    assert examples.counts.cut_texts == 0 and examples.num_windows.tolist() == [len(examples.input_ids)]
    offsets = np.asarray(tok(text, add_special_tokens=False).offsets).reshape(-1, 2)
    ids = tok(text, add_special_tokens=False).ids
    room = max_length - 2
    share = 0 if len(ids) <= room else long.shared(room, max_length)
    place, seen = 0, []
    for index, span in enumerate(examples.spans.tolist()):
        assert examples.input_ids[index][0] == whole.ids[0] and examples.input_ids[index][-1] == whole.ids[-1]
        part = own(examples, tok, index)
        assert part == ids[place : place + len(part)]
        assert all(span[0] <= start and end <= span[1] for start, end in offsets[place : place + len(part)] if end)
        assert 0 <= span[0] <= span[1] <= len(text)
        seen += range(place, place + len(part))
        place += len(part) - share
    assert sorted(set(seen)) == list(range(len(ids)))
    assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in pairwise(examples.spans.tolist()))


@settings(deadline=None, max_examples=40)
@given(rows=st.lists(st.tuples(some_words, st.none() | some_words), min_size=1, max_size=5), long=ways)
def test_rows_that_fit_are_tokenised_as_without_windows(rows, long):
    given_rows = [row(first, text_pair=second) for first, second in rows]
    counts, cut_counts = TextCounts(), TextCounts()
    windows = window_rows(given_rows, tokenizer(), None, long, counts=counts)
    whole = tokenize_rows(given_rows, tokenizer(), None, counts=cut_counts)
    assert counts == cut_counts and len(windows) == len(whole) == len(windows.input_ids)
    both = windows.batch(range(len(rows))), whole.batch(range(len(rows)))
    assert both[0].labels["example"].tolist() == both[1].labels["example"].tolist()
    for name in ("input_ids", "cu_seqlens", "position_ids", "token_type_ids"):
        one, other = (getattr(batch, name) for batch in both)
        assert one is other is None or torch.equal(one, other)


@settings(deadline=None, max_examples=40)
@given(first=some_words, second=some_words, max_length=st.integers(5, 30), long=ways)
def test_of_a_pair_the_first_text_is_in_every_window_and_the_second_is_covered(first, second, max_length, long):
    tok, counts = tokenizer(), TextCounts()
    examples = window_rows([row(first, text_pair=second)], tok, max_length, long, counts=counts)
    asked, told = (tok(text, add_special_tokens=False).ids for text in (first, second))
    room = max_length - 3
    kept = len(asked) if len(asked) + len(told) <= room else min(len(asked), max(room // 2, room - len(told)))
    assert counts.cut_tokens == len(asked) - kept
    seen = []
    for ids, types in zip(examples.input_ids, examples.token_types, strict=True):
        assert len(ids) <= max_length and ids[1 : kept + 1].tolist() == asked[:kept]
        assert types.tolist() == [0] * (kept + 2) + [1] * (len(ids) - kept - 2)
        seen.append(ids[kept + 2 : -1].tolist())
    joined, share = seen[0], long.shared(len(seen[0]), max_length)
    for part in seen[1:]:
        joined = joined + part[share:]
    assert joined == told


def test_no_room_for_text_is_an_error():
    with pytest.raises(InputError, match="leaves no room"):
        window_rows([row("the cat", text_pair="dogs")], tokenizer(), 3, LongTexts())
    assert len(window_rows([row("")], tokenizer(), 3, LongTexts()).input_ids) == 1


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("pair", [None, "the cat sat"])
def test_the_logits_of_a_document_are_those_of_its_windows_pooled_by_hand(pool, pair):
    model, judge, tok = network(), task(pool, stride=3), tokenizer()
    text = LONG if pair is None else (pair, LONG)
    found = Predictor(model, judge, 16).logits(["rain fell", text])
    windows = judge.unlabeled([row(LONG) if pair is None else row(pair, text_pair=LONG)], tok, 16, counts=TextCounts())
    alone = torch.cat(
        [model.logits(windows.sequences.batch([index])).detach() for index in range(len(windows.input_ids))]
    )
    assert len(alone) > 10
    by_hand = alone.mean(dim=0) if pool == "mean" else alone.max(dim=0).values
    assert torch.allclose(found[1], by_hand, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(texts=st.lists(some_words, min_size=1, max_size=6), pool=st.sampled_from(["mean", "max"]))
def test_a_text_of_one_window_is_answered_bit_for_bit_as_without_windows(texts, pool):
    model = network()
    cut = Predictor(model, Classification(["l0", "l1", "l2"]), 24)
    windows = Predictor(model, task(pool), 24)
    one, other = cut.logits(texts), windows.logits(texts)
    fits = [len(tokenizer()(text)) <= 24 for text in texts]
    assert torch.equal(one[fits], other[fits])
    for fit, before, after in zip(fits, cut.predict(texts), windows.predict(texts), strict=True):
        assert (before == after) if fit else ("loudest" in after)


def test_answers_do_not_depend_on_how_many_tokens_are_computed_at_once():
    predictor = Predictor(network(), task(), 16)
    texts = [LONG, "a", LONG[:200], ""]
    small, large = predictor.logits(texts, batch_tokens=16), predictor.logits(texts, batch_tokens=10_000)
    assert torch.allclose(small, large, atol=1e-5)


class Listening(nn.Module):
    """Logits by the words of a sequence: each word of `loud` gives its label 4, more words give more."""

    def __init__(self, loud, num_labels=3):
        super().__init__()
        self.word_embeddings = nn.Parameter(torch.zeros(len(tokenizer()), num_labels))
        self.most = 0
        with torch.no_grad():
            for word, label in loud.items():
                self.word_embeddings[tokenizer().encode_plain([word])[0], label] = 4.0

    def logits(self, batch):
        self.most = max(self.most, batch.num_tokens)
        return torch.stack([part.sum(dim=0) for part in self.word_embeddings[batch.input_ids].split(batch.lengths)])


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_the_top_scoring_window_is_the_one_with_the_decisive_words(pool):
    text = "the cat sat on the mat . " * 30 + "she bought milk " + "rain fell " * 40
    judge = task(pool, stride=4)
    model = Listening({"milk": 2})
    rows = [row(text), row("milk"), row("the cat", text_pair=text)]
    examples = judge.unlabeled(rows, tokenizer(), 20, counts=TextCounts())
    answers = judge.predict(model, examples)
    for answer in (answers[0], answers[2]):
        top_window = answer["loudest"]
        assert answer["label"] == "l2" and "milk" in text[top_window["start"] : top_window["end"]]
        assert top_window["windows"] > 10 and 0 < top_window["window"] < top_window["windows"]
        assert top_window["score"] == pytest.approx(np.exp(4) / (np.exp(4) + 2))
    assert "loudest" not in answers[1]
    assert json.loads(json.dumps(answers)) == answers


def test_with_several_labels_each_has_its_own_top_scoring_window():
    text = "milk " + "rain fell " * 60 + "cat"
    judge = task("max", multi_label=True, stride=0)
    model = Listening({"milk": 0, "cat": 2})
    answer = judge.predict(model, judge.unlabeled([row(text)], tokenizer(), 20, counts=TextCounts()))[0]
    assert answer["labels"] == ["l0", "l1", "l2"]  # a logit of 0 is a probability of one half
    assert "milk" in text[slice(*[answer["loudest"]["l0"][key] for key in ("start", "end")])]
    assert "cat" in text[slice(*[answer["loudest"]["l2"][key] for key in ("start", "end")])]
    assert answer["probabilities"]["l0"] == answer["loudest"]["l0"]["score"]


def test_memory_of_answers_does_not_grow_with_the_length_of_a_row():
    judge, model = task(), Listening({"milk": 1})
    examples = judge.unlabeled([row((LONG + " ") * 40)], tokenizer(), 32, counts=TextCounts())
    judge.predict(model, examples, batch_tokens=64)
    assert len(examples.input_ids) > 300 and model.most <= 64


LABELED = [row(LONG, "l0"), row("the cat", "l1"), row(LONG[30:160], "l2"), row("rain fell", "l0")]


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_training_counts_rows_and_its_gradients_pass_through_every_window(pool):
    judge = task(pool, stride=2)
    examples = judge.examples(LABELED, tokenizer(), 16)
    model = Listening({})
    nn.init.normal_(model.word_embeddings, generator=torch.Generator().manual_seed(3))
    outcome = judge.outcome(model, examples.batch([2, 0, 3]))
    assert outcome.counts == {"classification": 3} == judge.counts(examples.batch([2, 0, 3]))
    outcome.losses["classification"].backward()
    found = model.word_embeddings.grad.clone()
    model.word_embeddings.grad = None
    total = 0
    for number in (2, 0, 3):
        start, end = examples.starts[number : number + 2]
        alone = [model.logits(examples.sequences.batch([window]))[0] for window in range(start, end)]
        pooled = torch.stack(alone).mean(dim=0) if pool == "mean" else torch.stack(alone).amax(dim=0)
        total = total + judge.loss_of(pooled[None], examples.targets[number : number + 1])
    total.backward()
    assert torch.allclose(found, model.word_embeddings.grad, atol=1e-5)
    assert pool == "max" or bool((found[torch.from_numpy(np.unique(examples.input_ids[0]))] != 0).any(dim=1).all())


def test_training_reads_at_most_so_many_windows_spread_over_the_row_and_tells_it():
    judge = task(stride=2, max_windows=3)
    whole = judge.examples(LABELED, tokenizer(), 16)
    thin = judge.for_training(whole)
    assert thin.num_windows.tolist() == [min(3, count) for count in whole.num_windows.tolist()]
    assert thin.spans[0].tolist() == whole.spans[0].tolist()
    assert thin.spans[2].tolist() == whole.spans[whole.starts[1] - 1].tolist()
    assert len(thin.input_ids) + thin.num_dropped_windows == len(whole.input_ids)
    assert thin.num_limited_rows == (whole.num_windows > 3).sum() > 0
    assert torch.equal(thin.targets, whole.targets)
    told = judge.notes(thin, "train", 16)
    assert any(f"{thin.num_dropped_windows} windows are skipped (max_windows)" in line for line in told)
    assert f"4 train rows make {len(whole.input_ids)} windows" in told[0]
    assert judge.for_training(thin).num_windows.tolist() == thin.num_windows.tolist()


def test_a_step_over_long_rows_is_taken_in_portions_that_add_up():
    judge = task(max_windows=1000)
    rows = [row(LONG * 6, f"l{n % 3}") for n in range(12)] + LABELED
    examples = judge.examples(rows, tokenizer(), 24)
    portions = examples.portions(np.arange(len(rows)))
    assert len(portions) > 1 and sorted(np.concatenate(portions).tolist()) == list(range(len(rows)))
    assert all(examples.lengths[part].sum() <= TRAIN_TOKENS for part in portions)
    model = Listening({"milk": 1, "cat": 0})
    whole = judge.outcome(model, examples.batch(np.arange(len(rows)))).losses["classification"]
    parts = sum(judge.outcome(model, examples.batch(part)).losses["classification"] for part in portions)
    assert torch.isclose(whole, parts, rtol=1e-5)


@pytest.mark.parametrize(
    "found", ["windows", {"stride": -1}, {"pool": "sum"}, {"length": 3}, {"max_windows": 0}, {"stride": True}]
)
def test_a_setting_that_does_not_fit_is_refused(found):
    with pytest.raises(ModelFolderError, match="maskwright.json"):
        task_from_json({"task": "regression", "long": found})


@pytest.mark.parametrize(
    "given_settings", [("cut", 3), ("cut", None, "max"), ("fold",), ("windows", -1), ("windows", 1, "sum")]
)
def test_settings_of_a_recipe_are_checked(given_settings):
    with pytest.raises(ConfigError):
        LongTexts.of(*given_settings)
    assert LongTexts.of() is None and LongTexts.of("windows") == LongTexts()
