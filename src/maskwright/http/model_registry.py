"""The loaded models of a server or the studio, each with the inference wrappers of its abilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ..api import open_model, predictor_of
from ..core.errors import InputError, ModelFolderError
from ..core.storage import read_facts, sha256
from ..hub.adapters import FILE as ADAPTER_FILE
from ..hub.adapters import is_adapter, weights_digest
from ..hub.download import find_folder
from ..hub.published import short_names
from ..hub.sentence import SIGMOID, activation_of, prompts_of
from ..inference.answer import Answerer
from ..inference.embed import TextEncoder, embedder_of
from ..inference.fill_mask import MaskFiller
from ..inference.generate import TextGenerator
from ..inference.late import LateEncoder, late_encoder_of
from ..inference.predict import Predictor
from ..inference.ready import kind_of, usual_length
from ..inference.sparse import SparseEncoder, sparse_encoder_of
from ..inference.translate import TextTranslator
from ..inference.zero_shot import EmbeddingZeroShot, EntailmentZeroShot, ZeroShot
from ..models.model import Model, tokenizer_of
from ..tasks.classification import Classification
from ..tasks.sequence import ENTAILMENT, class_named, relevant_class
from ..text.tokenizers.tokenizer import Tokenizer


class LoadedModel:
    """A loaded model with its inference wrappers (`filler`, `predictor`, ...), which are created on first use.

    Args:
        name: Display name on the pages, and part of addresses.
        source: The model folder or Hugging Face Hub model ID as specified.
        model: The model.
        max_length: Maximum tokens of a text, None for the model's.
        shares_steps: Whether several generations advance together.
    """

    def __init__(
        self, name: str, source: str, model: Model, max_length: int | None = None, shares_steps: bool = False
    ) -> None:
        self.name, self.source, self.model = name, source, model
        self.wanted_length, self.shares_steps = max_length, shares_steps
        self.folder = find_folder(source)[0]
        self.kind = kind_of(model)
        self._encoders: dict[tuple[Any, ...], TextEncoder] = {}

    @property
    def tokenizer(self) -> Tokenizer:
        return tokenizer_of(self.model)

    @cached_property
    def filler(self) -> MaskFiller:
        return MaskFiller(self.model)

    @cached_property
    def predictor(self) -> Predictor:
        return predictor_of(self.model, self.source, self.wanted_length)

    @cached_property
    def answerer(self) -> Answerer:
        return Answerer(self.predictor)

    @cached_property
    def generator(self) -> TextGenerator:
        return TextGenerator(self.model, max_length=self.wanted_length, shares_steps=self.shares_steps)

    @cached_property
    def translator(self) -> TextTranslator:
        return TextTranslator(self.model, self.wanted_length)

    @cached_property
    def sparse_encoder(self) -> SparseEncoder:
        return sparse_encoder_of(self.model, self.source, self.wanted_length)

    @cached_property
    def late_encoder(self) -> LateEncoder:
        return late_encoder_of(self.model, self.source, self.wanted_length)

    @property
    def vectors(self) -> str:
        """What its folder declares that a text becomes: "dense", "sparse" or "late"."""
        return "dense" if self.model.sentence is None else self.model.sentence.kind

    def encoder(
        self, layers: str | int = "last", pooling: str | None = None, normalize: bool | None = None
    ) -> TextEncoder:
        """Returns a text encoder. What is None is as the model folder declares; another pooling does not normalize."""
        key = (layers, pooling, normalize)
        if key not in self._encoders:
            scaled = False if normalize is None and pooling is not None else normalize
            self._encoders[key] = embedder_of(
                self.model, self.source, layers=layers, pooling=pooling, normalize=scaled, max_length=self.wanted_length
            )
        return self._encoders[key]

    def zero_shot(self, labels: Sequence[str], template: str, multi_label: bool = False) -> ZeroShot:
        """Returns a classifier by label names. Raises InputError for wrong labels."""
        if self.kind.can("classes"):
            return EntailmentZeroShot(self.predictor, labels, template, multi_label)
        if multi_label:
            raise InputError(
                "multi_label needs a model with the class entailment: similarities of embeddings are not probabilities "
                "of single labels."
            )
        return EmbeddingZeroShot(self.encoder(normalize=True), labels, template)

    @property
    def max_length(self) -> int:
        if self.vectors != "dense":
            return (self.sparse_encoder if self.vectors == "sparse" else self.late_encoder).max_length
        if self.kind.can("embed") and not self.kind.can("generate"):
            return self.encoder().max_length
        return usual_length(self.model, self.wanted_length)

    @cached_property
    def prompts(self) -> dict[str, str]:
        """Texts that can be put before a text, by name, of a folder of sentence-transformers."""
        return prompts_of(self.folder)

    @property
    def has_entailment(self) -> bool:
        """Whether it classifies pairs by entailment."""
        return self.kind.can("classes") and class_named(self.model.labels, ENTAILMENT) is not None

    @property
    def has_relevant_class(self) -> bool:
        """Whether it classifies pairs, and it is known which class a ranking is by."""
        task = self.predictor.task if self.kind.can("classes") else None
        return isinstance(task, Classification) and relevant_class(task.labels, task.relevant) is not None

    @cached_property
    def output_is_log_odds(self) -> bool:
        """Whether the one output of a model that ranks pairs is log odds: of a cross-encoder.

        A regression model that was trained here gives the number that it was trained on. Raises ModelFolderError for a
        declared activation that is not supported.
        """
        facts = read_facts(self.folder)
        return bool(facts.get("scale")) if facts.get("task") else activation_of(self.folder) == SIGMOID

    @cached_property
    def digest(self) -> str:
        folder, root = find_folder(self.source)
        return sha256(folder / ADAPTER_FILE) if is_adapter(folder) else weights_digest(folder, root)

    @property
    def network(self) -> str:
        """Kind of the model: encoder, causal or encoder-decoder."""
        if self.model.head_name == "seq2seq":
            return "encoder-decoder"
        return "causal" if self.model.config.attention == "causal" else "encoder"

    def to_json(self) -> dict[str, Any]:
        """Returns the model facts that the pages display.

        Its examples are the held-out texts that the folder carries: {"text", "text_pair", "label"}.
        """
        config, tokenizer, examples = self.model.config, self.tokenizer, read_facts(self.folder).get("examples")
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
            "examples": [
                {name: str(one[name]) for name in ("text", "text_pair", "label") if name in one}
                for one in (examples if isinstance(examples, list) else [])
                if isinstance(one, dict) and isinstance(one.get("text"), str)
            ],
        }


def load_models(sources: Sequence[str], device: str = "auto", precision: str = "auto") -> list[LoadedModel]:
    """Loads models. Their names are the last parts of their paths, made unique."""
    given: dict[str, str] = {}
    for source in sources:
        folder = str(Path(source).resolve()) if Path(source).exists() else source
        if folder in given:
            raise ModelFolderError(f"{given[folder]} and {source} are the same model: pass it once.")
        given[folder] = source
    return [
        LoadedModel(name, source, open_model(source, (), device, precision))
        for name, source in zip(short_names(sources), sources, strict=True)
    ]
