"""Pre-training in memory: the objectives learn, seeds repeat, documents are what shards would give."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from maskwright.inference.fill_mask import MaskFiller, NextSentence
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.pretraining.job import pretrain_small

DOCUMENTS = [["red apples grow here .", "they are sweet ."], ["blue fish swim there .", "they are fast ."]] * 4
SENTENCES = [sentence for document in DOCUMENTS for sentence in document]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train_from_iterator(SENTENCES, "word", 50)


def test_a_masked_word_is_learned(tokenizer: Tokenizer):
    model = pretrain_small(DOCUMENTS, tokenizer, steps=80, hidden_size=32, mask_rate=0.3)
    best = MaskFiller(model).fill(["red [MASK] grow here ."])[0].masks[0].candidates[0]
    assert best.token_str == "apples" and best.score > 0.3


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "clm"])
def test_every_objective_trains_and_a_seed_repeats(tokenizer: Tokenizer, objective: str):
    first, again = (pretrain_small(DOCUMENTS, tokenizer, objective, steps=3, hidden_size=16) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert first.tokenizer is tokenizer and not first.training


def test_no_pair_of_two_sentence_documents_follows_by_the_place_of_b_alone():
    """Openings and closings have words of their own and nothing else in common: what follows is a coin's throw."""
    rng = np.random.default_rng(0)
    words = [[f"{kind}{number}" for number in range(40)] for kind in ("open", "close")]
    documents = [[" ".join(rng.choice(own, size=rng.integers(3, 8))) for own in words] for _ in range(200)]
    tokenizer = Tokenizer.train_from_iterator([text for document in documents for text in document], "word", 100)
    model = pretrain_small(documents, tokenizer, "mlm+nsp", steps=200, hidden_size=32)
    pairs = [(documents[place][0], documents[place - 50][1]) for place in range(200)]
    follows = NextSentence(model).probabilities(pairs)
    assert 0.35 < float(follows.mean()) < 0.65
