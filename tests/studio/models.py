"""Small models for the studio, one of each kind, made once for a test run: what they say is nonsense, and exact."""

from functools import cache, partial
from pathlib import Path
from typing import Any

from maskwright.hub.folders import save_model
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.models.presets import preset, special_token_settings
from maskwright.text.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "the cat sat on the mat .",
    "dogs chase cats in the garden , and the river rose after the rain .",
    "neurocomputing is the study of how the brain computes .",
    "where does the river rise ? it rises in the mountains of france .",
    "ada lovelace met charles babbage in london .",
    "an unbelievably long sentence about cats , dogs and mats that goes on and on .",
    "Ünïcödé — naïve café 🙂 テスト",
]


@cache
def tokenizer(kind: str = "wordpiece") -> Tokenizer:
    """About 200 subword tokens; byte-level ones for the causal model."""
    return Tokenizer.train_from_iterator(iter(TEXTS * 3), kind=kind, vocab_size=320 if kind == "byte-bpe" else 180)


def network(kind: str = "wordpiece", **changes: object) -> ModelConfig:
    """Two layers of 32, with weights large enough that tokens matter."""
    sizes: dict[str, object] = {
        "vocab_size": tokenizer(kind).vocab_size,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,
    }
    return ModelConfig(**{**sizes, **changes})  # type: ignore[arg-type]


def write(folder: Path, head: str | None, facts: dict[str, object] | None = None, **options: object) -> Path:
    model = build(network(), head, seed=3, **options)  # type: ignore[arg-type]
    return _save(folder, model, tokenizer(), facts)


write_masked = partial(write, head="mlm")
write_classifier = partial(
    write, head="classification", facts={"task": "classification"}, labels=["animal", "place", "=1+1"]
)
write_tagger = partial(
    write, head="tagging", facts={"task": "tagging"}, labels=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
)
write_parts_of_speech = partial(write, head="tagging", facts={"task": "tagging"}, labels=["DET", "NOUN", "VERB"])
write_answerer = partial(write, head="qa", facts={"task": "qa"})
write_chooser = partial(write, head="choice", facts={"task": "choice"})


def write_writer(folder: Path) -> Path:
    config = network("byte-bpe", attention="causal", type_vocab_size=0)
    return _save(folder, build(config, "clm", seed=3), tokenizer("byte-bpe"), None)


def write_translator(folder: Path, num_decoder_layers: int = 1) -> Path:
    sizes = {"num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64}
    return _write_pairs(folder, "transformer-mini", num_decoder_layers=num_decoder_layers, **sizes)


def write_recurrent_translator(folder: Path) -> Path:
    """One that reads and writes with recurrent layers, and looks at what it read."""
    return _write_pairs(folder, "seq2seq-small", num_decoder_layers=1, initializer_range=0.5)


def write_autoencoder(folder: Path) -> Path:
    return _write_pairs(folder, "autoencoder-small", num_decoder_layers=1)


def _write_pairs(folder: Path, name: str, **sizes: Any) -> Path:
    published, own = preset(name), tokenizer()
    config = preset(
        name,
        vocab_size=own.vocab_size,
        pad_token_id=own.pad_id or 0,
        hidden_size=32,
        num_hidden_layers=1,
        **sizes,
        **special_token_settings(published, own),
    )
    return _save(folder, build(config, "seq2seq", seed=3), own, {"task": "translation"})


def _save(folder: Path, model: Model, own: Tokenizer, facts: dict[str, object] | None) -> Path:
    model.tokenizer = own
    save_model(model.eval(), folder, facts=facts or {})
    return folder
