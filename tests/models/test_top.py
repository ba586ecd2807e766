"""Between encoder and head: a learned mix of layers and BiLSTMs, on any encoder, frozen or not, in folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from contracts.common import ROWS, SMALL, lively
from contracts.networks import learns, packs, travels
from maskwright.core.errors import ConfigError
from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.presets import preset
from maskwright.train.finetuning.config import FinetuneConfig

TOP = {"mix_layers": True, "top_layers": 1}


def networks() -> dict[str, ModelConfig]:
    sizes = {name: SMALL[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
    return {
        "bert": ModelConfig(**SMALL, **TOP, pooler=False, pooling="mean", classifier_act="tanh", choice_act="tanh"),
        "elmo": preset("elmo-small", **sizes, **TOP),
        "mix": ModelConfig(**SMALL, mix_layers=True),
        "beside": preset("elmo-small", **sizes, **TOP, top_embedding_size=6),
    }


@pytest.mark.parametrize(
    ("name", "head"), [("bert", "classification"), ("elmo", "tagging-crf"), ("mix", "qa"), ("beside", "tagging-crf")]
)
def test_heads_on_it_learn_pack_and_travel(name: str, head: str, tmp_path: Path):
    made = lively(networks()[name], head)
    packs(made)
    travels(made, tmp_path / "m")
    if head != "qa":
        learns(made)


def test_it_is_the_mix_of_all_layers_with_its_scale():
    made = lively(networks()["mix"], "tagging")
    encoded = made.encode(Batch.from_sequences(ROWS), hidden_states=True)
    shares, scale = made.top.mix.weights.softmax(0), made.top.mix.scale
    assert len(encoded.hidden_states) == 3
    mixed = scale * sum(share * layer for share, layer in zip(shares, encoded.hidden_states, strict=True))
    torch.testing.assert_close(encoded.hidden, mixed)
    assert made.top.mixture()["scale"] == pytest.approx(float(scale))


def test_what_it_cannot_stand_before_is_refused():
    with pytest.raises(ConfigError, match="pre-train without"):
        build(networks()["bert"], "mlm")
    with pytest.raises(ConfigError, match="even"):
        ModelConfig(**{**SMALL, "hidden_size": 33, "num_attention_heads": 3}, top_layers=1)
    with pytest.raises(ConfigError, match="encoder-decoder"):
        replace(preset("transformer-mini"), mix_layers=True)
    with pytest.raises(ConfigError, match="only mix_layers, top_layers and top_embedding_size"):
        FinetuneConfig(Path("a"), Path("b"), model="m", network={"hidden_size": 3})


def test_vectors_of_its_own_stand_beside_what_the_encoder_gives():
    made = lively(networks()["beside"], "tagging")
    batch = Batch.from_sequences(ROWS)
    encoded = made.encode(batch, hidden_states=True)
    read = torch.cat([made.top.mix(encoded.hidden_states), made.top.words.weight[batch.input_ids]], dim=-1)
    torch.testing.assert_close(encoded.hidden, made.top.stack(read, batch.lengths).layers[-1])
    assert made.top.words.weight.shape == (SMALL["vocab_size"], 6)
    with pytest.raises(ConfigError, match="top_embedding_size is used by top_layers"):
        ModelConfig(**SMALL, mix_layers=True, top_embedding_size=6)
