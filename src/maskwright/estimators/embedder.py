"""Texts to vectors, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..api import make_int8, open_embedder
from ..core.progress import warn
from ..hub.published import ENGLISH
from ..inference.embed import TextEncoder, TokenVectors
from ..inference.prepared import as_texts
from ..inference.ready import keep_private, place
from ..models.model import Model
from ..tasks.windows import LongTexts
from ..text.readers.inputs import Column, check_columns
from .fine_tuned import ModelSource


class Embedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Encodes texts as embeddings with any model. `transform` works without `fit`, except in int8.

    A parameter that is None is as the model folder declares it (`modules.json`, `maskwright.json`). Without a
    declaration, the pooling is mean, embeddings are not normalized, and texts are truncated at the model's maximum
    length.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        layers: "embeddings", "last", "second-to-last", "sum-all", "sum-last-4", "concat-last-4", or layer numbers.
        pooling: "cls", "mean", "max", "state" (recurrent models), or "none" for a matrix of token embeddings per
            text.
        normalize: Scale embeddings to unit length.
        max_length: Maximum sequence length in tokens.
        long: "cut" truncates longer texts; "windows" averages the embeddings of overlapping windows.
        stride: Overlap of neighboring windows in tokens.
        columns: Columns of a data frame (names) or matrix (positions): the text, or both texts of a pair. None for
            `text` and `text_pair`.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16", "fp16", or "int8", which `fit` calibrates on its texts.

    Example:
        >>> Embedder("minilm").transform(["a text", "another"]).shape
        (2, 384)
    """

    def __init__(
        self,
        model: ModelSource = ENGLISH,
        *,
        layers: str | int | Sequence[int] = "last",
        pooling: str | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
        long: str | None = None,
        stride: int | None = None,
        columns: Sequence[Column] | None = None,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.normalize = normalize
        self.max_length = max_length
        self.long = long
        self.stride = stride
        self.columns = columns
        self.device = device
        self.precision = precision

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Load the model. The texts are used only for precision "int8", which is calibrated on them."""
        check_columns(self.columns)
        typical = as_texts(X, self.columns) if self.precision == "int8" and X is not None else None
        if isinstance(self.model, Model):
            model = place(deepcopy(self.model), self.device, self.precision)
            pooling, normalize = self.pooling or "mean", bool(self.normalize)
            windows = LongTexts.of(self.long or "cut", self.stride)
            self.encoder_ = TextEncoder(model, self.layers, pooling, normalize, self.max_length, windows)
            make_int8(model, typical, self.encoder_.max_length)
            keep_private(model)
        else:
            self.encoder_ = open_embedder(
                self.model,
                layers=self.layers,
                pooling=self.pooling,
                normalize=self.normalize,
                max_length=self.max_length,
                long=self.long,
                stride=self.stride,
                device=self.device,
                precision=self.precision,
                calibrate_on=typical,
            )
        self._n_features_out = self.encoder_.size
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """float32 [texts, size]; with pooling "none" a list of float32 [tokens, size]."""
        encoder = self._encoder()
        texts = as_texts(X, self.columns)
        if encoder.pooling == "none":
            return [found.vectors for found in encoder.token_vectors(texts)]
        cut = encoder.counts.cut_texts
        vectors = encoder.vectors(texts)
        if encoder.counts.cut_texts > cut:
            truncated = encoder.counts.cut_texts - cut
            warn(f"{truncated:,} of {len(texts):,} texts are truncated to {encoder.max_length} tokens.")
        return vectors

    def word_vectors(self, X: Any, subwords: str = "mean") -> list[TokenVectors]:  # noqa: N803
        """For each text its words, their starts and ends in it, and float32 [words, size], from the same layers.

        subwords: "mean" of a word's subword tokens, or the "first". Truncated words are omitted.
        """
        return list(self._encoder().word_vectors(as_texts(X, self.columns), subwords))

    def _encoder(self) -> TextEncoder:
        if not hasattr(self, "encoder_"):
            self.fit()
        return self.encoder_

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags
