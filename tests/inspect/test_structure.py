"""The blocks of a model: every parameter once, FLOPs as by the formulas, changes of weights as by their definition."""

from __future__ import annotations

import pytest
import torch

from maskwright.core.errors import InputError, MissingFileError
from maskwright.inspect.structure import describe_weight, model_structure, weight_differences, weights_of
from maskwright.models import sizes as flops
from maskwright.models.adapters import merge_adapter
from studio import models as writers

TEXT = "the cat sat on the mat ."
KINDS = {
    "masked": writers.write_masked,
    "classes": writers.write_classifier,
    "names": writers.write_tagger,
    "answers": writers.write_answerer,
    "choices": writers.write_chooser,
    "writer": writers.write_writer,
    "translator": writers.write_translator,
    "recurrent": writers.write_recurrent_translator,
}


@pytest.fixture
def load(tmp_path):
    from maskwright.api import open_model

    def opener(write):
        return open_model(write(tmp_path / write.__name__), (), "cpu", "fp32")

    return opener


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_in_one_part(load, kind):
    model = load(KINDS[kind])
    found = model_structure(model, TEXT)
    weights = {one.name: one.shape for block in found.blocks for part in block.parts for one in part.weights}
    assert weights == {name: tuple(one.shape) for name, one in model.named_parameters()}
    assert found.parameters == sum(one.numel() for one in model.parameters())
    assert all(part.output for block in found.blocks for part in block.parts if part.calls)
    assert found.counts_flops == (kind != "recurrent")


def test_flops_are_those_of_the_formulas(load):
    model = load(writers.write_masked)
    found = model_structure(model, TEXT)
    config, count = model.config, len(found.tokens)
    layers = [block.flops for block in found.blocks if ".layers." in block.name]
    assert sum(layers) == count * (flops.linear_flops(config) + flops.attention_flops(config, count))
    assert found.flops == sum(layers) + count * flops.word_head_flops(config)
    parts = {part.name: part for block in found.blocks for part in block.parts}
    assert parts["encoder.layers.0.attention"].flops == 4 * config.hidden_size * count * count
    up = parts["encoder.layers.0.ffn.up"]
    assert (up.input, up.output) == ((count, 32), (count, 64))


def test_a_weight_is_described_by_its_numbers(load):
    model = load(writers.write_masked)
    name = "encoder.layers.1.ffn.up.weight"
    weight = model.get_parameter(name).detach()
    found = describe_weight(model, name)
    assert found["shape"] == list(weight.shape) and sum(found["counts"]) == weight.numel() == found["size"]
    assert found["deviation"] == pytest.approx(float(weight.std(correction=0)))
    assert found["edges"][0] == pytest.approx(found["least"]) and found["edges"][-1] == pytest.approx(found["most"])
    assert found["singular"] == pytest.approx(torch.linalg.svdvals(weight.double()).tolist(), rel=1e-6)
    assert describe_weight(model, "encoder.layers.1.ffn.up.bias")["singular"] == []
    with pytest.raises(MissingFileError, match="no weights named nothing"):
        describe_weight(model, "nothing")


def test_the_change_of_an_adapter_is_that_of_its_merged_weights():
    from maskwright.api import open_model

    model, base = open_model("english-spam", (), "cpu", "fp32"), open_model("english", (), "cpu", "fp32")
    found, alone = weight_differences(model, None)
    assert alone == ["encoder.pooler.weight", "encoder.pooler.bias", "head.classifier.weight", "head.classifier.bias"]
    against, _ = weight_differences(model, base)
    assert found == pytest.approx(against)
    own = weights_of(model)
    merge_adapter(model)
    for name, weight in model.named_parameters():
        assert torch.equal(own[name], weight.detach())
    name = "encoder.layers.0.attention.out.weight"
    before, after = base.get_parameter(name).detach(), model.get_parameter(name).detach()
    assert found[name] == pytest.approx(float((after - before).norm() / before.norm())) and found[name] > 0.05
    assert found["encoder.embeddings.word.weight"] == 0


def test_models_that_cannot_be_compared(load):
    from maskwright.api import open_model

    masked, other = load(writers.write_masked), open_model("english", (), "cpu", "fp32")
    with pytest.raises(InputError, match="is not an adapter"):
        weight_differences(masked, None)
    with pytest.raises(InputError, match="models of one architecture"):
        weight_differences(masked, other)
