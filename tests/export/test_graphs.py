"""Networks for graphs, run by torch: they give the numbers of the packed path, for every family, head and switch, and
the comparison with the library rejects others.
"""

import copy

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from drawn_networks import configs
from export.small_models import ENCODERS, HEADS, agreement_of, small, small_translator, specification_of
from inference.samples import TEXTS
from maskwright.core.errors import ConfigError, InputError, ModelFolderError
from maskwright.data.batch import Batch
from maskwright.export.agreement import LIMITS, TorchRuntime, limits_of
from maskwright.export.cached import networks_of
from maskwright.export.config import ExportConfig
from maskwright.export.graph_model import GraphModel
from maskwright.export.network import PaddedNetwork, most_tokens
from maskwright.inference.fill_mask import MaskFiller, NextSentence
from maskwright.inference.ready import kind_of
from maskwright.models.build import build
from maskwright.models.model import SentenceSettings

LOWER = {
    "fp16": LIMITS["fp16"],
    "bf16": LIMITS["bf16"],
    "int8": limits_of(ExportConfig(model="model", output="out", precision="int8", calibrate_on="texts.txt")),
}
PAIRS = [("the cat sat", "on the mat ."), ("a", "dogs chase cats in the garden"), ("rain fell", "a")]


class CountingRuntime(TorchRuntime):
    """A graph that torch runs. rows: of each batch that it ran."""

    def __init__(self, network) -> None:
        super().__init__(network)
        self.rows: list[int] = []

    def run(self, inputs):
        self.rows.append(len(inputs["input_ids"]))
        return super().run(inputs)


def graph_of(model, **changes) -> GraphModel:
    (network,) = networks_of(model)
    spec = specification_of([network], most_tokens(model.config)) | changes
    labels = model.labels or None
    graph = GraphModel(model.config, model.head_name, labels, model.problem_type, spec, CountingRuntime(network))
    graph.tokenizer = model.tokenizer
    return graph.train(False)


def pack(model, texts=TEXTS) -> Batch:
    """Texts in their own order, longest and shortest side by side."""
    return Batch.from_sequences(*model.tokenizer.encode_ids(texts, 24))


def shortfalls(model, change) -> dict[str, list[str]]:
    """What is beyond the limits of each precision if every weight is `change` of it."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.copy_(change(parameter))
    found = agreement_of(model, by=changed, count=3)
    return {name: found.shortfalls(limits) for name, limits in LOWER.items()}


def rounded(weight):
    return (weight * 2**14).round() / 2**14


def rolled(weight):
    return weight.roll(1, 0) if weight.ndim > 1 else weight


def close(found, atol: float = 1e-5) -> None:
    """Every output is that of the library, and every class too."""
    for name, one in found.outputs.items():
        assert one.largest_difference < atol and one.same_class in (None, 1.0), name


@pytest.mark.parametrize(
    ("name", "head"),
    [
        pytest.param(name, head, marks=[] if name == "bert-tiny" or head in (None, "mlm") else [pytest.mark.slow])
        for name in ENCODERS
        for head in HEADS
    ],
)
def test_every_family_and_head(name: str, head: str | None):
    try:
        model = small(name, head)
    except ConfigError:
        pytest.skip(f"{name} has no head {head}")
    close(agreement_of(model))
    assert shortfalls(model, rounded) == {"fp16": [], "bf16": [], "int8": []}
    assert all(shortfalls(model, rolled).values())
    graph, batch = graph_of(model), pack(model)
    with torch.inference_mode():
        if head is None:
            expected, found = model.encode(batch).hidden, graph.encode(batch).hidden
        elif head == "mlm":
            expected, found = (one.token_logits(batch, batch.last_tokens) for one in (model, graph))
        elif head in ("nsp", "pretraining"):
            expected, found = model.pair_logits(batch), graph.pair_logits(batch)
        else:
            expected, found = model.logits(batch), graph.logits(batch)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("method", ["cls", "mean", "max"])
def test_every_pooling_is_in_the_graph(method: str, normalize: bool):
    close(agreement_of(small("bert-tiny"), SentenceSettings(method, normalize, dimensions=7)))


@pytest.mark.parametrize(
    "model",
    [
        lambda: small("gpt2", "clm"),
        lambda: small("gpt2", "clm", positions="rotary"),
        lambda: small("gpt2", "clm", positions="relative_key_value", relative_distance=5),
        small_translator,
        lambda: small_translator("bart-base"),
    ],
)
def test_graphs_with_a_cache(model):
    model = model()
    close(agreement_of(model))
    assert not any(shortfalls(model, rounded).values()) and all(shortfalls(model, rolled).values())


@settings(
    max_examples=20, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(configs)
def test_every_combination_of_switches_agrees(config):
    try:
        found = agreement_of(build(config, None, seed=1).eval())
    except ModelFolderError as error:
        assert "sparse" in str(error)
        return
    # Some drawn networks amplify rounding: 1.3e-4 on a CPU with AVX2.
    assert found.outputs["last_hidden_state"].largest_difference < 1e-3


def test_padding_does_not_change_a_row_and_a_row_of_padding_alone_is_finite():
    network = PaddedNetwork(small("bert-tiny"))
    ids = torch.tensor([[5, 6, 7]])
    alone = network(ids, torch.ones_like(ids), torch.zeros_like(ids))[1]
    wide = torch.nn.functional.pad(ids, (0, 30, 0, 1))
    found = network(wide, (wide > 0).long(), torch.zeros_like(wide))
    torch.testing.assert_close(found[1][:1], alone)
    assert all(bool(one.isfinite().all()) for one in found)


@pytest.mark.parametrize("distance", [16, 32, 64])
def test_a_distance_in_the_next_bucket_does_not_pass_as_half_precision(distance):
    model = small("mpnet-base", max_position_embeddings=140)
    with torch.no_grad():
        model.encoder.relative.weight.mul_(5)  # as large as in a trained model
    wrong = copy.deepcopy(model)
    for place in (128 - distance, 128 + distance):
        wrong.encoder.relative.buckets[place] -= 1
    assert agreement_of(model, by=wrong).shortfalls(LIMITS["fp16"])
    assert not agreement_of(model).shortfalls(LIMITS["fp16"])


# -- models that a graph computes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [None, "classification", "tagging", "qa", "mlm", "pretraining"])
def test_the_padded_call_has_the_fields_of_the_model(head):
    model = small("bert-tiny", head)
    ids = torch.randint(5, 100, (3, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3, [1] * 5 + [0] * 2])
    graph = graph_of(model)
    with torch.inference_mode():
        expected, found = model(ids, attention_mask=mask), graph(ids, attention_mask=mask)
    for name in set(found.keys()) - (set() if head is None else {"last_hidden_state"}):
        keep = mask.bool() if found[name].shape[:2] == mask.shape else slice(None)
        torch.testing.assert_close(found[name][keep], expected[name][keep], atol=1e-5, rtol=1e-4)
    with pytest.raises(InputError, match="padding at the right only"):
        graph(ids, attention_mask=mask.flip(1))


def test_choices_keep_their_questions():
    model = small("bert-tiny", "choice")
    ids = torch.randint(5, 100, (2, 3, 6), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(graph_of(model)(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-4)


def test_batches_have_little_padding_and_a_dynamic_graph_has_none():
    model = small("bert-tiny")
    graph, batch = graph_of(model), pack(model)
    graph.run(batch)
    assert 1 < len(graph.runtime.rows) < len(TEXTS)
    dynamic = graph_of(model, quantization={"activations": "dynamic"})
    dynamic.run(batch)
    assert dynamic.runtime.rows == [1] * len(TEXTS)


def test_masks_and_pairs_are_predicted_as_by_the_library():
    model = small("bert-tiny", "pretraining")
    graph = graph_of(model)
    one, two = (MaskFiller(either).fill(["the [MASK] sat on [MASK] mat ."])[0] for either in (graph, model))
    assert one.filled == two.filled and len(one.masks) == 2
    assert one.masks[0].candidates[0].score == pytest.approx(two.masks[0].candidates[0].score, abs=1e-5)
    found, expected = NextSentence(graph).probabilities(PAIRS), NextSentence(model).probabilities(PAIRS)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert kind_of(graph_of(small("gpt2", "clm"))).abilities == {"generate"}
