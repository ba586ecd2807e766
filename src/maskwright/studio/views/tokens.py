"""Endpoints of the page Tokens: subword tokens of a text, segmentation steps, merges of a vocabulary."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from ...text.tokenizers.explain import SegmentationTracer, explain, format_subwords, parse_words
from ..requests import Here, Json, LongText, Name, RequestModel, ShortText, body

router = APIRouter()


class TokensRequest(RequestModel):
    """A text or a text pair."""

    model: Name
    text: LongText
    pair: LongText | None = None


class SegmentationRequest(RequestModel):
    """Words to segment step by step."""

    model: Name
    words: ShortText


class VocabularyRequest(RequestModel):
    """Word counts, as old:7,older:3, and the merge criterion."""

    words: ShortText
    kind: Literal["bpe", "wordpiece-score"] = "bpe"
    merges: Annotated[int, Field(ge=0, le=200)] = 5
    tie_break: Literal["first", "last", "lexicographic"] = "first"


@router.post("/api/tokens")
def tokens(studio: Here, asked: Annotated[TokensRequest, body(TokensRequest)]) -> Json:
    """Returns every token with its ID, token type and offsets, and the subwords in both notations."""
    found = studio.model(asked.model)
    tokenizer, most = found.tokenizer, found.model.config.max_position_embeddings
    encoding = tokenizer(asked.text, asked.pair)
    texts = (asked.text, asked.pair or "")
    own = tokenizer.encode_plain([text for text in (asked.text, asked.pair) if text is not None])
    columns = zip(
        encoding.tokens,
        encoding.ids,
        encoding.type_ids,
        encoding.offsets,
        encoding.sequence_ids,
        tokenizer.word_starts(encoding.ids).tolist(),
        strict=True,
    )
    return Json(
        {
            "tokens": [
                {
                    "token": token,
                    "id": id,
                    "type": type_id,
                    "start": None if source is None else start,
                    "end": None if source is None else end,
                    "source": source,
                    "text": "" if source is None else texts[source][start:end],
                    "starts": starts,
                    "unknown": id == tokenizer.unk_id,
                }
                for token, id, type_id, (start, end), source, starts in columns
            ],
            "right": [format_subwords(tokenizer, ids, "right") for ids in own],
            "left": [format_subwords(tokenizer, ids, "left") for ids in own],
            "kind": tokenizer.kind,
            "vocabulary": tokenizer.vocab_size,
            "unknown": encoding.num_unknown,
            "beyond": max(len(encoding) - most, 0),
            "most": most,
        }
    )


@router.post("/api/tokens/cut")
def cut(studio: Here, asked: Annotated[SegmentationRequest, body(SegmentationRequest)]) -> Json:
    """Returns the segmentation of words into subwords, step by step."""
    return Json(SegmentationTracer(studio.model(asked.model).tokenizer).cut(asked.words).to_json())


@router.post("/api/tokens/learn")
def learn(asked: Annotated[VocabularyRequest, body(VocabularyRequest)]) -> Json:
    """Returns every merge with its counts, the counts it changed, and at most the 12 best candidates."""
    explained = explain(
        parse_words(asked.words), asked.kind, num_merges=asked.merges, tie_break=asked.tie_break
    ).as_dict()
    for merge in explained["merges"]:
        merge["rivals"] = len(merge["candidates"])
        merge["candidates"] = merge["candidates"][:12]
    return Json(explained)
