"""Next sentence: the probability that B follows A, for pairs only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import InputError
from maskwright.inference.fill_mask import NextSentence

PAIRS = list(zip(TEXTS, TEXTS[3:] + TEXTS[:3], strict=True))


@pytest.mark.parametrize("head", ["pretraining", "nsp"])
def test_probabilities_are_those_of_the_padded_model_in_the_order_of_the_pairs(head):
    model = tiny(head)
    encodings = tokenizer().encode_batch(PAIRS, 48, padding="longest")
    ids, types, mask = (
        torch.tensor([getattr(encoding, name) for encoding in encodings])
        for name in ("ids", "type_ids", "attention_mask")
    )
    with torch.inference_mode():
        out = model(input_ids=ids, token_type_ids=types, attention_mask=mask)
    logits = out.seq_relationship_logits if head == "pretraining" else out.logits
    expected = logits.double().softmax(-1)[:, 0].numpy()
    assert np.allclose(NextSentence(model).probabilities(PAIRS), expected, atol=1e-5)


def test_single_texts_are_refused_and_no_pairs_give_nothing():
    judge = NextSentence(tiny("nsp"))
    assert judge.probabilities([]).shape == (0,)
    with pytest.raises(InputError, match="pairs"):
        judge.probabilities(["one text"])
