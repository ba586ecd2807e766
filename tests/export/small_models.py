"""Small networks of every family and head, and their outputs as a graph would give them."""

from __future__ import annotations

from inference.samples import tokenizer
from maskwright.export.agreement import Agreement, measure_module
from maskwright.export.attention import most_tokens
from maskwright.export.config import ExportConfig
from maskwright.export.network import PaddedNetwork, Pooling
from maskwright.export.specification import specification
from maskwright.export.trial_texts import drawn_trials
from maskwright.models.build import build
from maskwright.models.model import Model
from maskwright.models.presets import PRESETS, preset

ENCODERS = (
    "bert-tiny",
    "roberta-base",
    "xlm-roberta-base",
    "distilbert-base",
    "albert-base",
    "electra-small",
    "mpnet-base",
    "bigbird-base",
    "modernbert-base",
    "gpt2",
    "bag-small",
)
HEADS = (None, "mlm", "nsp", "pretraining", "rtd", "classification", "regression", "tagging", "qa", "choice", "anomaly")
LABELS = {"classification": ["no", "perhaps", "yes"], "tagging": ["O", "B-A", "I-A"]}


def small(name: str, head: str | None = None, **changes) -> Model:
    """A network of two layers of 16, with weights large enough that tokens matter."""
    is_bag = name == "bag-small"
    sizes = {
        "vocab_size": len(tokenizer()),
        "hidden_size": 16,
        "num_hidden_layers": 0 if is_bag else 3,
        "num_attention_heads": 1 if is_bag else 2,
        "intermediate_size": 24,
        "max_position_embeddings": 40,
        "initializer_range": 0.3,
    }
    if PRESETS[name].embedding_size:
        sizes["embedding_size"] = 8
    if PRESETS[name].question_sep_token_id is not None:
        sizes["question_sep_token_id"] = tokenizer().token_to_id("[SEP]")
    if PRESETS[name].attention == "window":
        sizes["window_size"] = 8
    if PRESETS[name].pad_token_id is None or PRESETS[name].pad_token_id >= sizes["vocab_size"]:
        sizes["pad_token_id"] = 0
    model = build(preset(name, **sizes | changes), head, labels=LABELS.get(head or ""), seed=3).eval()
    model.tokenizer = tokenizer()
    return model


def agreement_of(model: Model, pooling: Pooling | None = None) -> Agreement:
    """How a network for graphs, run by torch, agrees with the library."""
    network = PaddedNetwork(model, pooling)
    config, longest = ExportConfig(model="model", output="out"), most_tokens(model.config)
    spec = specification(network, config, ["model.onnx"], longest, longest)
    return measure_module(network, network, spec, drawn_trials(network, longest))
