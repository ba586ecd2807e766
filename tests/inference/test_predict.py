"""Answers: in the order of the texts, as the padded model gives them, however they are computed together."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import InputError
from maskwright.inference.fill_mask import NextSentence
from maskwright.inference.predict import Predictor, trace
from maskwright.inference.ready import kind_of
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.tasks.classification import Classification
from maskwright.tasks.examples import rows_of
from maskwright.tasks.regression import Regression

LABELS = ["Hardware", "Software", "Billing"]


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(tiny("classification", labels=LABELS), Classification(LABELS))


def padded(model, texts):
    encodings = tokenizer().encode_batch(texts, 48, padding="longest")
    ids, types, mask = (
        torch.tensor([getattr(encoding, name) for encoding in encodings])
        for name in ("ids", "type_ids", "attention_mask")
    )
    with torch.inference_mode():
        return model(input_ids=ids, token_type_ids=types, attention_mask=mask)


def test_packed_answers_are_those_of_the_padded_model(predictor):
    for texts in (TEXTS, list(zip(TEXTS, reversed(TEXTS), strict=True))):
        assert torch.allclose(predictor.logits(texts), padded(predictor.model, texts).logits, atol=1e-5)


@settings(max_examples=25)
@given(st.permutations(range(len(TEXTS))), st.integers(1, 200))
def test_neither_order_nor_batch_size_changes_an_answer(predictor, order, batch_tokens):
    expected = predictor.logits(TEXTS)
    found = predictor.logits([TEXTS[index] for index in order], batch_tokens)
    assert torch.allclose(found, expected[list(order)], atol=1e-5)


def test_answers_name_the_labels(predictor):
    answers = predictor.predict(TEXTS)
    best = predictor.logits(TEXTS).argmax(dim=-1).tolist()
    assert [answer["label"] for answer in answers] == [LABELS[index] for index in best]
    assert all(sum(answer["probabilities"].values()) == pytest.approx(1.0) for answer in answers)


def test_a_file_is_answered_block_by_block_like_a_list(predictor, monkeypatch):
    monkeypatch.setattr("maskwright.inference.predict.BLOCK_ROWS", 3)
    rows = rows_of(TEXTS)
    found = list(predictor.stream(rows))
    assert [row for row, _ in found] == rows
    assert [answer["label"] for _, answer in found] == [answer["label"] for answer in predictor.predict(TEXTS)]


def test_a_stream_is_answered_while_two_blocks_are_held(predictor, monkeypatch):
    monkeypatch.setattr("maskwright.inference.predict.BLOCK_ROWS", 8)
    taken = 0

    def rows():
        nonlocal taken
        for row in rows_of(["a text", "another"] * 50):
            taken += 1
            yield row

    for answered, _ in enumerate(predictor.stream(rows())):
        assert taken - answered <= 16
    assert taken == 100


def test_cut_texts_are_counted():
    predictor = Predictor(tiny("regression"), Regression(), max_length=8)
    answers = predictor.predict(TEXTS)
    assert predictor.counts.cut_texts > 0 and predictor.predict([]) == []
    with pytest.raises(InputError, match="3 to 48"):
        Predictor(tiny("regression"), Regression(), max_length=49)
    assert set(answers[0]) == {"score"}


def test_a_trace_of_a_pair_counts_the_words_of_both(predictor):
    found = trace(predictor, ("the cat sat", "dogs !")).words
    assert " ".join(found) == "[CLS] the cat sat [SEP] dogs ! [SEP]"


def test_a_causal_model_is_of_the_kind_of_the_task_that_it_was_trained_for():
    config = preset("gpt2", vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    model = build(config, "clm")
    assert kind_of(model).can("predict-next")
    model.task_name = "generation"
    assert kind_of(model).name == "generation" and not kind_of(model).can("predict-next")


PAIRS = list(zip(TEXTS, TEXTS[3:] + TEXTS[:3], strict=True))


@pytest.mark.parametrize("head", ["pretraining", "nsp"])
def test_probabilities_are_those_of_the_padded_model_in_the_order_of_the_pairs(head):
    model = tiny(head)
    out = padded(model, PAIRS)
    logits = out.seq_relationship_logits if head == "pretraining" else out.logits
    expected = logits.double().softmax(-1)[:, 0].numpy()
    assert np.allclose(NextSentence(model).probabilities(PAIRS), expected, atol=1e-5)


def test_single_texts_are_refused_and_no_pairs_give_nothing():
    judge = NextSentence(tiny("nsp"))
    assert judge.probabilities([]).shape == (0,)
    with pytest.raises(InputError, match="pairs"):
        judge.probabilities(["one text"])
