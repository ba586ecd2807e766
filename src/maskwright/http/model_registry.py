"""Loaded models with their inference wrappers, by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..api import open_model, predictor_of
from ..core.errors import ModelFolderError
from ..core.storage import read_facts
from ..hub.download import find_folder
from ..hub.published import short_names
from ..hub.sentence import declared_by
from ..inference.answer import Answerer
from ..inference.embed import TextEncoder
from ..inference.fill_mask import MaskFiller
from ..inference.generate import TextGenerator
from ..inference.kinds import kind_of
from ..inference.predict import Predictor
from ..inference.translate import TextTranslator
from ..models.model import Model, tokenizer_of

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer


class LoadedModel:
    """A loaded model with its inference wrappers (`filler`, `predictor`, ...), which are created on first use.

    Args:
        name: Display name on the pages.
        source: The model folder or Hugging Face Hub model ID as specified.
        model: The model.
    """

    def __init__(self, name: str, source: str, model: Model) -> None:
        self.name, self.source, self.model = name, source, model
        self.folder = find_folder(source)[0]
        self.kind = kind_of(model)
        self._encoders: dict[tuple[Any, ...], TextEncoder] = {}

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return tokenizer_of(self.model)

    @cached_property
    def filler(self) -> MaskFiller:
        """Predicts masked tokens."""
        return MaskFiller(self.model)

    @cached_property
    def predictor(self) -> Predictor:
        """Predicts with a fine-tuned head."""
        return predictor_of(self.model, self.source)

    @cached_property
    def answerer(self) -> Answerer:
        """Answers questions (extractive)."""
        return Answerer(self.predictor)

    @cached_property
    def generator(self) -> TextGenerator:
        """Generates continuations."""
        return TextGenerator(self.model)

    @cached_property
    def translator(self) -> TextTranslator:
        """Translates texts."""
        return TextTranslator(self.model)

    def encoder(self, layers: str | int = "last", pooling: str | None = None) -> TextEncoder:
        """Returns a text encoder. pooling: None for the pooling that the model folder declares."""
        key = (layers, pooling)
        if key not in self._encoders:
            declared = self.model.sentence or declared_by(self.folder)
            normalize = None if pooling is None else False
            self._encoders[key] = TextEncoder(self.model, layers, pooling, normalize, declared=declared)
        return self._encoders[key]

    @property
    def network(self) -> str:
        """Kind of the model: encoder, causal or encoder-decoder."""
        if self.model.head_name == "seq2seq":
            return "encoder-decoder"
        return "causal" if self.model.config.attention == "causal" else "encoder"

    def to_json(self) -> dict[str, Any]:
        """Returns the model facts that the pages display."""
        config, tokenizer = self.model.config, self.tokenizer
        return {
            "name": self.name,
            "what": self.kind.description,
            "source": self.source,
            "layers": config.num_hidden_layers,
            "hidden": config.hidden_size,
            "heads": config.num_attention_heads,
            "vocabulary": tokenizer.vocab_size,
            "kind": tokenizer.kind,
            "mask": tokenizer.special_tokens.get("mask"),
            "max_length": config.max_position_embeddings,
            "parameters": sum(one.numel() for one in self.model.parameters()),
            "examples": self.examples,
        }

    @property
    def examples(self) -> list[dict[str, str]]:
        """Held-out texts that the model folder carries: {"text", "text_pair", "label"}, the last two optional."""
        found = read_facts(self.folder).get("examples")
        return [
            {name: str(one[name]) for name in ("text", "text_pair", "label") if name in one}
            for one in (found if isinstance(found, list) else [])
            if isinstance(one, dict) and isinstance(one.get("text"), str)
        ]


def load_models(sources: Sequence[str], device: str = "auto", precision: str = "auto") -> list[LoadedModel]:
    """Loads models. Their names are the last parts of their paths, made unique."""
    given: dict[str, str] = {}
    for source in sources:
        folder = str(Path(source).resolve()) if Path(source).exists() else source
        if folder in given:
            raise ModelFolderError(f"{given[folder]} and {source} are the same model: pass it once.")
        given[folder] = source
    names = short_names(sources)
    return [
        LoadedModel(name, source, open_model(source, (), device, precision))
        for name, source in zip(names, sources, strict=True)
    ]
