"""One text through a masked and a causal language model: whose words each sees, and what is rejected."""

from __future__ import annotations

import pytest
import torch

from maskwright.core.errors import InputError, ModelFolderError
from maskwright.inference.fill_mask import predict_side_by_side
from maskwright.lessons.small import small_network, word_tokenizer

TEXTS = ("the dog sleeps at night", "the cat sleeps at noon")
CAUSAL = {"attention": "causal", "type_vocab_size": 0, "pooler": False}


def models():
    tokenizer = word_tokenizer(*TEXTS)
    masked = small_network(tokenizer.vocab_size, "mlm")
    causal = small_network(tokenizer.vocab_size, "clm", **CAUSAL)
    masked.tokenizer = causal.tokenizer = tokenizer
    return masked, causal


def test_each_word_is_predicted_from_what_its_model_sees():
    masked, causal = models()
    one, other = (predict_side_by_side(masked, causal, text) for text in TEXTS)
    assert one.words == TEXTS[0].split() and one.masked.shape == one.causal.shape == (5, causal.config.vocab_size)
    assert torch.allclose(one.masked.sum(dim=1), torch.ones(5)) and torch.allclose(one.causal.sum(dim=1), torch.ones(5))
    assert torch.allclose(one.causal[:2], other.causal[:2], atol=1e-5), "nothing before these words differs"
    assert not torch.allclose(one.causal[2], other.causal[2], atol=1e-3), "the word before it differs"
    assert not torch.allclose(one.masked[0], other.masked[0], atol=1e-3), "words after it differ"
    by_hand = [-float(one.causal[n, token].log()) for n, token in enumerate(one.ids)]
    assert one.loss(one.causal) == pytest.approx(sum(by_hand) / 5, rel=1e-5)


def test_what_cannot_be_compared_is_refused():
    masked, causal = models()
    with pytest.raises(InputError, match="no tokens"):
        predict_side_by_side(masked, causal, " ")
    with pytest.raises(ModelFolderError, match="causal language model"):
        predict_side_by_side(causal, masked, TEXTS[0])
    causal.tokenizer = word_tokenizer("other words of another model are these")
    with pytest.raises(InputError, match="different vocabularies"):
        predict_side_by_side(masked, causal, TEXTS[0])
