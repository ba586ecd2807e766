"""Models that answer as they are: embeddings, masked words, generated text and translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..api import open_embedder, open_generator, open_mask_filler, open_translator
from ..core.progress import warn
from ..hub.published import ENGLISH
from ..inference.embed import TokenVectors
from ..inference.fill_mask import FilledText
from ..inference.generate import Continuation, Generation
from ..inference.prepared import as_texts, single_texts
from ..inference.translate import Translated, TranslationSettings
from ..models.decoding.rules import Rules
from ..tasks.translation import corpus_scores
from ..text.readers.inputs import Column, check_columns
from .base import Estimator, ModelSource, check_lengths, check_targets


@dataclass(eq=False, repr=False)
class Pretrained(Estimator):
    """Base class: all methods work without `fit`, which only loads the model.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.
    """

    model: ModelSource
    _: KW_ONLY
    device: str = "auto"
    precision: str = "auto"

    opened: ClassVar[str]  # name of the attribute with what was opened

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Load the model. The texts are not used."""
        setattr(self, self.opened, self._open(X))
        return self

    def _open(self, X: Any) -> Any:
        raise NotImplementedError

    @property
    def _opened(self) -> Any:
        return getattr(self if hasattr(self, self.opened) else self.fit(), self.opened)

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(eq=False, repr=False)
class Embedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Pretrained):
    """Encodes texts as embeddings with any model. `transform` works without `fit`, except in int8.

    A parameter that is None is as the model folder declares it (`modules.json`, `maskwright.json`). Without a
    declaration, the pooling is mean, embeddings are not normalized, and texts are truncated at the model's maximum
    length.

    Args:
        layers: "embeddings", "last", "second-to-last", "sum-all", "sum-last-4", "concat-last-4", or layer numbers.
        pooling: "cls", "mean", "max", "state" (recurrent models), or "none" for a matrix of token embeddings per
            text.
        normalize: Scale embeddings to unit length.
        max_length: Maximum sequence length in tokens.
        long: "cut" truncates longer texts; "windows" averages the embeddings of overlapping windows.
        stride: Overlap of neighboring windows in tokens.
        columns: Columns of a data frame (names) or matrix (positions): the text, or both texts of a pair. None for
            `text` and `text_pair`.
        precision: "auto", "fp32", "bf16", "fp16", or "int8", which `fit` calibrates on its texts.

    Example:
        >>> Embedder("minilm").transform(["a text", "another"]).shape
        (2, 384)
    """

    model: ModelSource = ENGLISH
    _: KW_ONLY
    layers: str | int | Sequence[int] = "last"
    pooling: str | None = None
    normalize: bool | None = None
    max_length: int | None = None
    long: str | None = None
    stride: int | None = None
    columns: Sequence[Column] | None = None

    opened: ClassVar[str] = "encoder_"

    def _open(self, X: Any) -> Any:
        check_columns(self.columns)
        settings = {name: value for name, value in self.get_params(deep=False).items() if name != "columns"}
        typical = as_texts(X, self.columns) if self.precision == "int8" and X is not None else None
        encoder = open_embedder(settings.pop("model"), calibrate_on=typical, **settings)
        self._n_features_out = encoder.size
        return encoder

    def transform(self, X: Any) -> Any:
        """float32 [texts, size]; with pooling "none" a list of float32 [tokens, size]."""
        encoder, texts = self._opened, as_texts(X, self.columns)
        if encoder.pooling == "none":
            return [found.vectors for found in encoder.token_vectors(texts)]
        cut = encoder.counts.cut_texts
        vectors = encoder.vectors(texts)
        if truncated := encoder.counts.cut_texts - cut:
            warn(f"{truncated:,} of {len(texts):,} texts are truncated to {encoder.max_length} tokens.")
        return vectors

    def word_vectors(self, X: Any, subwords: str = "mean") -> list[TokenVectors]:
        """For each text its words, their starts and ends in it, and float32 [words, size], from the same layers.

        subwords: "mean" of a word's subword tokens, or the "first". Truncated words are omitted.
        """
        return list(self._opened.word_vectors(as_texts(X, self.columns), subwords))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags


@dataclass(eq=False, repr=False)
class FillMask(Pretrained):
    """Predicts masked tokens with a pre-trained model. All methods work without `fit`.

    Args:
        top_k: Number of candidates that `fill` returns for each mask.

    Example:
        >>> FillMask("runs/mini/model").fill("the [MASK] of the river")[0].masks[0].candidates
    """

    model: ModelSource = ENGLISH
    _: KW_ONLY
    top_k: int = 5

    opened: ClassVar[str] = "filler_"

    def _open(self, X: Any) -> Any:
        return open_mask_filler(self.model, device=self.device, precision=self.precision)

    def fill(self, texts: Any, targets: Sequence[str] | None = None) -> list[FilledText]:
        """The masks of each text with their `top_k` candidates and probabilities; targets: of these words only."""
        found: list[FilledText] = self._opened.fill(
            single_texts(texts, "Texts with masks"), None if targets else self.top_k, targets
        )
        return found

    def predict(self, X: Any) -> list[str]:
        """Each text with the most probable token in place of every mask."""
        return [found.filled for found in self._opened.fill(single_texts(X, "Texts with masks"), top_k=1)]

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """The probability of every token of the vocabulary: float64 [masks, vocab] for each text, rows sum to 1."""
        return [self._opened.probabilities(text) for text in single_texts(X, "Texts with masks")]

    def score(self, X: Any, y: Any) -> float:
        """Share of texts, with one mask each, whose most probable token is the word in y."""
        found = self._opened.fill(single_texts(X, "Texts with masks"), top_k=1)
        check_targets(y, "word")
        words = [self._opened.token_of(str(word)) for word in y]
        check_lengths(found, words)
        pairs = zip(found, words, strict=True)
        return float(np.mean([[mask.candidates[0].token for mask in text.masks] == [word] for text, word in pairs]))


@dataclass(eq=False, repr=False)
class Generator(Pretrained):
    """Generates continuations with a causal language model. All methods work without `fit`.

    Args:
        max_new_tokens: Maximum length of a continuation in tokens.
        greedy: Select the most probable token instead of sampling.
        temperature: Divides the logits; below 1 sharpens the distribution.
        top_k: Sample from this many most probable tokens; None for all.
        top_p: Sample from the most probable tokens with this total probability; None for all.
        repetition_penalty: Above 1 lowers the probability of earlier tokens.
        num_results: Number of continuations per prompt.
        beams: Beam size; 1 disables beam search.
        length_penalty: Length penalty of beam search; above 0 favors longer texts.
        stop: Texts before which a continuation ends.
        max_length: Context length in tokens; None as in training.
        random_state: Random seed.

    Example:
        >>> Generator("runs/g/model", top_k=40, random_state=1).predict(["Once upon a time"])
    """

    model: ModelSource
    _: KW_ONLY
    max_new_tokens: int = 50
    greedy: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0
    num_results: int = 1
    beams: int = 1
    length_penalty: float = 1.0
    stop: Sequence[str] = ()
    max_length: int | None = None
    random_state: int = 0

    opened: ClassVar[str] = "generator_"

    def _open(self, X: Any) -> Any:
        return open_generator(self.model, max_length=self.max_length, device=self.device, precision=self.precision)

    def generate(self, prompts: Any) -> list[list[Continuation]]:
        """`num_results` continuations of each prompt, with their scores and why they ended."""
        rules = Rules(self.greedy, self.temperature, self.top_k, self.top_p, self.repetition_penalty)
        settings = Generation(
            self.max_new_tokens,
            rules,
            self.num_results,
            self.beams,
            self.length_penalty,
            stop=tuple(self.stop),
            seed=self.random_state,
        )
        found: list[list[Continuation]] = self._opened.generate(single_texts(prompts, "Prompts"), settings)
        return found

    def predict(self, X: Any) -> list[str]:
        """What the model adds to each prompt; the first of several results."""
        return [found[0].text for found in self.generate(X)]

    def complete(self, text: str, k: int = 3, max_new_tokens: int = 8) -> list[Continuation]:
        """`k` suggestions of what comes next, the most probable first; see `TextGenerator.complete`."""
        found: list[Continuation] = self._opened.complete(text, k, max_new_tokens)
        return found


@dataclass(eq=False, repr=False)
class Translator(Pretrained):
    """Translates texts with an encoder-decoder. All methods work without `fit`.

    Args:
        beams: Beam size; 1 for greedy decoding.
        num_results: Number of translations per text.
        length_penalty: Above 0 favors longer translations.
        max_new_tokens: Maximum length of a translation in tokens; None for 50 more than its source.
        max_length: Maximum source length in tokens; None as in training.
        to: Target language of a multilingual model.
        brackets: Results are bracket strings: "flag" prefers well-formed ones, "enforce" allows nothing else.

    Example:
        >>> Translator("runs/t/model", beams=5).predict(["Ein Hund läuft."])
    """

    model: ModelSource
    _: KW_ONLY
    beams: int = 5
    num_results: int = 1
    length_penalty: float = 1.0
    max_new_tokens: int | None = None
    max_length: int | None = None
    to: str | None = None
    brackets: str | None = None

    opened: ClassVar[str] = "translator_"

    def _open(self, X: Any) -> Any:
        return open_translator(self.model, max_length=self.max_length, device=self.device, precision=self.precision)

    def translate(self, X: Any) -> list[list[Translated]]:
        """`num_results` translations of each text, best first, with their scores."""
        settings = TranslationSettings(
            self.beams, self.num_results, self.length_penalty, self.max_new_tokens, self.to, self.brackets
        )
        found: list[list[Translated]] = self._opened.translate(single_texts(X, "Texts to translate"), settings)
        return found

    def predict(self, X: Any) -> list[str]:
        """The best translation of each text."""
        return [found[0].text for found in self.translate(X)]

    def score(self, X: Any, y: Any) -> float:
        """BLEU of the translations of X against the texts y, 0 to 100. Raises MissingExtraError without sacrebleu."""
        texts, wanted = single_texts(X, "Texts to translate"), single_texts(y, "Texts to translate")
        check_lengths(texts, wanted)
        return corpus_scores(self.predict(texts), wanted)[0]["bleu"]
