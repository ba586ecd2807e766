"""Masked words: probabilities over the whole vocabulary, in the right text, at the right mask."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from inference.samples import tiny, tokenizer
from maskwright.api import open_mask_filler
from maskwright.core.errors import InputError, ModelFolderError
from maskwright.inference.fill_mask import MaskFiller
from maskwright.models.build import build

TEXTS = [
    "the [MASK] sat on the mat .",
    "dogs chase [MASK] in the [MASK] .",
    "[MASK]",
    "rain [MASK] [MASK] [MASK]",
]


@pytest.fixture(scope="module", params=["mlm", "pretraining"])
def filler(request) -> MaskFiller:
    return MaskFiller(tiny(request.param))


def padded_probabilities(model, text):
    encoding = tokenizer()(text)
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([encoding.ids]))
    logits = out.prediction_logits if "prediction_logits" in out else out.logits
    places = [index for index, id in enumerate(encoding.ids) if id == tokenizer().mask_id]
    return logits[0, places].double().softmax(-1).numpy()


def test_probabilities_are_those_of_the_padded_model_and_sum_to_one(filler):
    for text in TEXTS:
        found = filler.probabilities(text)
        assert found.shape == (text.count("[MASK]"), len(tokenizer()))
        assert np.allclose(found, padded_probabilities(filler.model, text), atol=1e-6)
        assert np.allclose(found.sum(axis=1), 1.0, atol=1e-9)


def test_texts_filled_together_are_filled_as_alone(filler, monkeypatch):
    monkeypatch.setattr("maskwright.inference.fill_mask.BLOCK_TEXTS", 3)
    together = filler.fill(TEXTS)
    for text, found in zip(TEXTS, together, strict=True):
        alone = filler.fill([text])[0]
        assert alone.filled == found.filled
        for mine, other in zip(found.masks, alone.masks, strict=True):
            assert [entry.token for entry in mine.candidates] == [entry.token for entry in other.candidates]


def test_candidates_come_most_probable_first_with_their_rank(filler):
    mask = filler.fill(TEXTS[:1], top_k=7)[0].masks[0]
    scores = [entry.score for entry in mask.candidates]
    assert scores == sorted(scores, reverse=True)
    assert [entry.rank for entry in mask.candidates] == list(range(1, 8))


def test_the_whole_vocabulary_sums_to_one(filler):
    mask = filler.fill(TEXTS[:1], top_k=None)[0].masks[0]
    assert len(mask.candidates) == len(tokenizer())
    assert sum(entry.score for entry in mask.candidates) == pytest.approx(1.0)


def test_named_words_get_their_rank_among_all(filler):
    whole = {entry.token_str: entry for entry in filler.fill(TEXTS[:1], top_k=None)[0].masks[0].candidates}
    named = filler.fill(TEXTS[:1], words=["cat", "the", "on"])[0].masks[0].candidates
    assert {entry.token_str for entry in named} == {"cat", "the", "on"}
    assert [entry.rank for entry in named] == sorted(entry.rank for entry in named)
    assert all(entry == whole[entry.token_str] for entry in named)


def test_masks_are_found_where_they_stand(filler):
    text = TEXTS[1]
    found = filler.fill([text])[0]
    assert [text[mask.start : mask.end] for mask in found.masks] == ["[MASK]", "[MASK]"]
    assert found.masks[0].start < found.masks[1].start


def test_only_one_mask_is_filled_in_a_candidates_text_and_all_in_the_filled_one(filler):
    found = filler.fill([TEXTS[1]])[0]
    assert all(entry.sequence.count("[MASK]") == 1 for mask in found.masks for entry in mask.candidates)
    assert "[MASK]" not in found.filled or any(mask.candidates[0].token_str == "[MASK]" for mask in found.masks)


def test_a_continuing_piece_joins_the_word_before_it(filler):
    piece = next(token for token in tokenizer().tokens if token.startswith("##"))
    entry = filler.fill(["the cat [MASK] here"], words=[piece])[0].masks[0].candidates[0]
    assert entry.sequence == f"the cat{piece[2:]} here"


def test_case_and_spaces_of_the_text_stay(filler):
    entry = filler.fill(["The  CAT [MASK]!"], words=["sat"])[0].masks[0].candidates[0]
    assert entry.sequence == "The  CAT sat!"


def test_a_result_is_json(filler):
    result = filler.fill([TEXTS[1]], top_k=2)[0].to_json()
    assert json.loads(json.dumps(result)) == result
    assert [len(mask["predictions"]) for mask in result["masks"]] == [2, 2]
    assert set(result["masks"][0]["predictions"][0]) == {"token", "token_str", "score", "rank", "sequence"}


@pytest.mark.parametrize(
    ("texts", "options", "words"),
    [
        (["no mask here"], {}, r"Text 1 has no \[MASK\]"),
        (["[MASK]", "none"], {}, r"Text 2 has no \[MASK\]"),
        (["[MASK] " + "cat " * 100], {}, "the model accepts 48"),
        (["[MASK]"], {"top_k": 0}, "at least 1"),
        (["[MASK]"], {"words": ["gardenscats"]}, "not one token"),
        (["[MASK]"], {"words": ["漢"]}, "not one token"),
    ],
)
def test_what_cannot_be_filled_is_refused_in_words(filler, texts, options, words):
    with pytest.raises(InputError, match=words):
        filler.fill(texts, **options)


def test_a_left_to_right_model_is_refused_in_words(tmp_path):
    model = build(replace(tiny().config, attention="causal"), "clm")
    model.tokenizer = tokenizer()
    with pytest.raises(InputError, match="causal"):
        MaskFiller(model)
    model.save(tmp_path / "m")
    with pytest.raises(ModelFolderError, match="causal language model, but this requires"):
        open_mask_filler(str(tmp_path / "m"))
