"""Request bodies of Text Embeddings Inference."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ...inference.zero_shot import TEMPLATE
from .routing import Body, Text, Texts, Unsupported

Direction = Annotated[
    Any,
    Unsupported("texts are truncated at their end", "right", "Right"),
    Field(description="Texts are truncated at their end."),
]
Truncate = Annotated[bool, Field(description="Whether longer texts are truncated; false refuses them (413).")]
PromptName = Annotated[
    str | None,
    Field(max_length=1000, description="A prompt of the folder's config_sentence_transformers.json, put before texts."),
]
Dimensions = Annotated[
    int | None, Field(ge=1, description="Only the first numbers, scaled again where vectors have length 1.")
]
RawScores = Annotated[bool, Field(description="Logits instead of probabilities; of /rerank, the log odds.")]
Id = Annotated[int, Field(ge=0, lt=2**31)]


class EmbedBody(Body):
    """inputs: a text or a list."""

    inputs: Texts
    normalize: Annotated[bool, Field(description="To length 1.")] = True
    truncate: Truncate = True
    truncation_direction: Direction = "right"
    dimensions: Dimensions = None
    prompt_name: PromptName = None


class EmbedAllBody(Body):
    """inputs: a text or a list."""

    inputs: Texts
    truncate: Truncate = True
    truncation_direction: Direction = "right"
    prompt_name: PromptName = None


class PredictBody(Body):
    """inputs: a text, a pair of two texts, or a list of lists of one or two texts."""

    inputs: Text | list[Text] | list[list[Text]]
    raw_scores: RawScores = False
    truncate: Truncate = True
    truncation_direction: Direction = "right"
    labels: Annotated[
        list[Text] | None, Field(min_length=2, max_length=100, description="Classes without training; not TEI's.")
    ] = None
    template: Annotated[
        str | None, Field(max_length=1000, description=f"Sentence with {{}} for a label; {TEMPLATE}")
    ] = None


class RerankBody(Body):
    """query: what the texts are compared with."""

    query: Text
    texts: list[Text]
    raw_scores: RawScores = False
    return_text: Annotated[bool, Field(description="Whether the result has the texts.")] = False
    truncate: Truncate = True
    truncation_direction: Direction = "right"


class Compared(Body):
    """One text and those it is compared with."""

    source_sentence: Text
    sentences: list[Text]


class SimilarityParameters(Body):
    """Parameters of /similarity."""

    truncate: Truncate = True
    truncation_direction: Direction = "right"
    prompt_name: PromptName = None


class SimilarityBody(Body):
    """inputs: the texts, as sentence_similarity sends them."""

    inputs: Compared
    parameters: SimilarityParameters | None = None


class TokenizeBody(Body):
    """inputs: a text or a list."""

    inputs: Texts
    add_special_tokens: Annotated[bool, Field(description="Whether the special tokens are added.")] = True
    prompt_name: PromptName = None


class DecodeBody(Body):
    """ids: token ids of a text, or of several."""

    ids: (
        Annotated[list[Id], Field(max_length=100_000)]
        | Annotated[list[Annotated[list[Id], Field(max_length=100_000)]], Field(max_length=1024)]
    )
    skip_special_tokens: Annotated[bool, Field(description="Whether special tokens are left out.")] = True
