"""What each rung of a ladder is: what is pre-trained for it, and what is fine-tuned, as the recipes of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..hub.names import short_names
from .ladder_config import LadderConfig


@dataclass(frozen=True)
class Rung:
    """name, title: in results; about: in a sentence; pretrain: settings of a PretrainConfig, None for what is not
    pre-trained; finetune: settings of a FinetuneConfig, None for counted words.
    """

    name: str
    title: str
    about: str
    pretrain: Mapping[str, Any] | None = None
    finetune: Mapping[str, Any] | None = field(default_factory=dict)


def rungs_of(config: LadderConfig) -> list[Rung]:
    """The rungs of a recipe, lowest first, and the given models on top."""
    size, layers = config.hidden_size, config.num_layers
    recurrent = {"hidden_size": size, "num_hidden_layers": 2}
    heads = max(size // 64, 1) if size % max(size // 64, 1) == 0 else 1
    transformer = {
        "hidden_size": size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * size,
    }
    top = {"mix_layers": True, "top_layers": 1, "top_embedding_size": size}
    table = {
        "words": Rung("words", "counted words", "TF-IDF of words and pairs, logistic regression", finetune=None),
        "static": Rung(
            "static", "static vectors", "word2vec of the raw text, their mean, fine-tuned", None, {"lr": 5e-3}
        ),
        "lstm": Rung(
            "lstm", "LSTM", "from scratch, the last token judges", None, _scratch("lstm-small", recurrent, 2e-3)
        ),
        "bilstm": Rung(
            "bilstm", "BiLSTM", "from scratch, the mean judges", None, _scratch("bilstm-small", recurrent, 2e-3)
        ),
        "elmo": Rung(
            "elmo",
            "ELMo features",
            "two language models, frozen; a BiLSTM learns on a mix of their layers and vectors of its own",
            {"preset": "elmo-small", "objective": "bilm", "model": recurrent, "lr": 2e-3},
            {"network": top, "freeze_encoder": True, "lr": 2e-3},
        ),
        "gpt": Rung(
            "gpt",
            "GPT-style",
            "left to right, pre-trained, fine-tuned",
            {"preset": "gpt2", "objective": "clm", "model": transformer, "lr": 1e-3},
            {"lr": 2e-4},
        ),
        "bert-scratch": Rung(
            "bert-scratch", "BERT, scratch", "no pre-training", None, _scratch("bert-mini", transformer, 2e-4)
        ),
        "bert": Rung(
            "bert",
            "BERT, own",
            "masked words, pre-trained, fine-tuned",
            {"preset": "bert-mini", "objective": "mlm", "model": transformer, "lr": 1e-3},
            {"lr": 2e-4},
        ),
    }
    given = [
        Rung(f"given-{number}", name, f"{model}, fine-tuned", None, {"model": model, "lr": config.lr_given})
        for number, (name, model) in enumerate(zip(short_names(config.models), config.models, strict=True), 1)
    ]
    return [table[name] for name in config.climbed] + given


def _scratch(preset: str, network: Mapping[str, Any], lr: float) -> dict[str, Any]:
    return {"preset": preset, "network": dict(network), "lr": lr}
