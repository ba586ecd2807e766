"""The models of a ladder, with the recipes of their pre-training and fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...hub.names import short_names
from .config import LadderConfig


@dataclass(frozen=True)
class LadderModel:
    """One model of the comparison.

    name, title: in the results; about: a short description; pretrain: settings of a PretrainConfig, None without
    pre-training; finetune: settings of a FinetuneConfig, None for the bag-of-words model.
    """

    name: str
    title: str
    about: str
    pretrain: Mapping[str, Any] | None = None
    finetune: Mapping[str, Any] | None = field(default_factory=dict)


def ladder_models(config: LadderConfig) -> list[LadderModel]:
    """The models of a recipe, the simplest first, and the given model folders last."""
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
        "words": LadderModel(
            "words", "bag of words", "TF-IDF of unigrams and bigrams, logistic regression", finetune=None
        ),
        "static": LadderModel(
            "static", "static embeddings", "mean-pooled word2vec embeddings, fine-tuned", None, {"lr": 5e-3}
        ),
        "lstm": LadderModel("lstm", "LSTM", "from scratch, last token", None, _scratch("lstm-small", recurrent, 2e-3)),
        "bilstm": LadderModel(
            "bilstm", "BiLSTM", "from scratch, mean pooling", None, _scratch("bilstm-small", recurrent, 2e-3)
        ),
        "elmo": LadderModel(
            "elmo",
            "ELMo features",
            "frozen bidirectional LM; a BiLSTM on a scalar mix of its layers and new embeddings",
            {"preset": "elmo-small", "objective": "bilm", "model": recurrent, "lr": 2e-3},
            {"network": top, "freeze_encoder": True, "lr": 2e-3},
        ),
        "gpt": LadderModel(
            "gpt",
            "GPT-style",
            "causal LM, pre-trained, fine-tuned",
            {"preset": "gpt2", "objective": "clm", "model": transformer, "lr": 1e-3},
            {"lr": 2e-4},
        ),
        "bert-scratch": LadderModel(
            "bert-scratch", "BERT, scratch", "no pre-training", None, _scratch("bert-mini", transformer, 2e-4)
        ),
        "bert": LadderModel(
            "bert",
            "BERT, own",
            "masked LM, pre-trained, fine-tuned",
            {"preset": "bert-mini", "objective": "mlm", "model": transformer, "lr": 1e-3},
            {"lr": 2e-4},
        ),
    }
    given = [
        LadderModel(f"given-{number}", name, f"{model}, fine-tuned", None, {"model": model, "lr": config.lr_given})
        for number, (name, model) in enumerate(zip(short_names(config.models), config.models, strict=True), 1)
    ]
    return [table[name] for name in config.ordered_models] + given


def _scratch(preset: str, network: Mapping[str, Any], lr: float) -> dict[str, Any]:
    return {"preset": preset, "network": dict(network), "lr": lr}
