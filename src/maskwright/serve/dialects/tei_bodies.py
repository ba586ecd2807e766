"""Request bodies of Text Embeddings Inference."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...inference.zero_shot import TEMPLATE
from .routing import Body, Text, Texts

Direction = Literal["right", "Right"]
Id = Annotated[int, Field(ge=0, lt=2**31)]


class EmbedBody(Body):
    """inputs: a text or a list; normalize: to length 1; dimensions: only the first ones, scaled again."""

    inputs: Texts
    normalize: bool = True
    truncate: bool = True
    truncation_direction: Direction = "right"
    dimensions: Annotated[int, Field(ge=1)] | None = None
    prompt_name: None = None


class EmbedAllBody(Body):
    """inputs: a text or a list."""

    inputs: Texts
    truncate: bool = True
    truncation_direction: Direction = "right"
    prompt_name: None = None


class PredictBody(Body):
    """inputs: a text, a pair of two texts, or a list of lists of one or two texts; labels: classes without training."""

    inputs: Text | list[Text] | list[list[Text]]
    raw_scores: bool = False
    truncate: bool = True
    truncation_direction: Direction = "right"
    labels: Annotated[list[Text], Field(min_length=2, max_length=100)] | None = None
    template: Annotated[str, Field(max_length=1000)] = TEMPLATE


class RerankBody(Body):
    """query: what the texts are compared with; return_text: include them in the result."""

    query: Text
    texts: list[Text]
    raw_scores: bool = False
    return_text: bool = False
    truncate: bool = True
    truncation_direction: Direction = "right"


class Compared(Body):
    """One text and those it is compared with."""

    source_sentence: Text
    sentences: list[Text]


class SimilarityParameters(Body):
    """truncate: whether too long texts are truncated."""

    truncate: bool = True
    truncation_direction: Direction = "right"
    prompt_name: None = None


class SimilarityBody(Body):
    """inputs: the texts."""

    inputs: Compared
    parameters: SimilarityParameters | None = None


class TokenizeBody(Body):
    """inputs: a text or a list."""

    inputs: Texts
    add_special_tokens: bool = True
    prompt_name: None = None


class DecodeBody(Body):
    """ids: token ids of a text, or of several."""

    ids: (
        Annotated[list[Id], Field(max_length=100_000)]
        | Annotated[list[Annotated[list[Id], Field(max_length=100_000)]], Field(max_length=1024)]
    )
    skip_special_tokens: bool = True
