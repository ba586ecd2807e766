"""Pre-training in memory: the objectives learn, seeds repeat, documents are what shards would give."""

from __future__ import annotations

import pytest
import torch

from maskwright.inference.fill_mask import MaskFiller
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
