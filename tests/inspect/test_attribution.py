"""Integrated gradients: complete, exact where the network is linear, blind to what does not count."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inference.samples import tiny
from looked_at import TEXT, translator
from maskwright.core.errors import ConfigError, InputError
from maskwright.inspect import attribute
from maskwright.inspect.attribution import attribute_of
from maskwright.inspect.reading import read

LABELS = ["no", "maybe", "yes"]
MASKED = "the cat [MASK] on the mat"


@pytest.mark.parametrize("baseline", ["mask", "pad", "zero"])
@pytest.mark.parametrize("answer", [None, *LABELS])
def test_attributions_add_up_to_what_the_text_changes(baseline: str, answer: str | None):
    model = tiny("classification", labels=LABELS)
    found = attribute(model, TEXT, answer, baseline=baseline)
    assert found.is_complete
    assert found.attributions.sum() == pytest.approx(found.at_text - found.at_baseline, abs=0.02)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([found.tokens.ids])).logits[0]
    assert found.at_text == pytest.approx(float(logits[LABELS.index(found.answer)]), abs=1e-4)
    if answer is None:
        assert found.answer == LABELS[int(logits.argmax())]


@pytest.mark.parametrize("answer", [None, "sat"])
def test_a_prediction_for_a_mask_is_explained_too(answer: str | None):
    found = attribute(tiny("mlm"), MASKED, answer, baseline="pad")
    assert found.is_complete and (answer is None or found.answer == answer)
    assert found.attributions[found.tokens.subwords.index("[MASK]")] == 0  # it stays as it is


def test_more_points_of_the_way_bring_the_sum_nearer():
    reading = read(tiny("regression"), TEXT)
    gaps = [abs(attribute_of(reading, steps=steps).gap) for steps in (2, 128)]
    assert gaps[1] < 1e-3 and attribute_of(reading, steps=2).steps > 2


def test_special_tokens_and_a_text_that_is_the_baseline_get_nothing():
    found = attribute(tiny("classification", labels=LABELS), "[MASK] [MASK] cat")
    assert found.attributions[0] == found.attributions[-1] == 0  # [CLS] and [SEP] stay
    assert found.attributions[1] == found.attributions[2] == 0 and found.attributions[3] != 0


def test_attributions_are_those_of_a_plain_sum_of_gradients():
    """Another way to the same integral: a hundred points in the middle of equal steps, through the padded call."""
    model = tiny("classification", labels=LABELS)
    found = attribute(model, TEXT, "yes", baseline="zero")
    table = model.encoder.embeddings.word
    ids = torch.tensor([found.tokens.ids])
    end = table(ids[0]).detach()
    start = end * torch.tensor(found.tokens.is_special)[:, None]
    total = torch.zeros_like(end)
    for part in (np.arange(100) + 0.5) / 100:
        vectors = (start + part * (end - start)).requires_grad_()
        handle = table.register_forward_hook(lambda module, inputs, output, own=vectors: own)
        model(input_ids=ids).logits[0, 2].backward()
        handle.remove()
        total += vectors.grad / 100
    expected = (total * (end - start)).sum(dim=-1).detach().numpy()
    np.testing.assert_allclose(found.attributions, expected, atol=5e-3)


def test_the_model_is_left_as_it_was():
    model = tiny("classification", labels=LABELS)
    before = [(name, value.clone(), value.grad) for name, value in model.named_parameters()]
    attribute(model, TEXT)
    for (_, value, gradient), now in zip(before, model.parameters(), strict=True):
        assert torch.equal(value, now) and now.grad is gradient
    assert not model.encoder.embeddings.word._forward_hooks


def test_what_has_no_answer_to_explain_is_refused():
    with pytest.raises(InputError, match="Attributions require"):
        attribute(tiny(), TEXT)
    with pytest.raises(InputError, match="Attributions require"):
        attribute(translator(), TEXT)
    with pytest.raises(InputError, match="'perhaps' is not a label"):
        attribute(tiny("classification", labels=LABELS), TEXT, "perhaps")
    with pytest.raises(InputError, match="has 0 masks"):
        attribute(tiny("mlm"), TEXT)
    with pytest.raises(ConfigError, match="baseline"):
        attribute(tiny("regression"), TEXT, baseline="nothing")
