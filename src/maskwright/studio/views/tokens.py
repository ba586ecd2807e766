"""The page Tokens: pieces of a text, the steps that cut a word, the merges that learn a vocabulary."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from ...text.cutting import Cutter
from ...text.explain import explain, parse_words
from ...text.notation import show_pieces
from ..asking import Asked, Here, Json, LongText, Name, ShortText, body

router = APIRouter()


class AskedTokens(Asked):
    """A text, or a pair."""

    model: Name
    text: LongText
    pair: LongText | None = None


class AskedCut(Asked):
    """Some words to cut step by step."""

    model: Name
    words: ShortText


class AskedLearning(Asked):
    """Counted words, as old:7,older:3, and how merges are chosen."""

    words: ShortText
    kind: Literal["bpe", "wordpiece-score"] = "bpe"
    merges: Annotated[int, Field(ge=0, le=200)] = 5
    tie_break: Literal["first", "last", "lexicographic"] = "first"


@router.post("/api/tokens")
def tokens(studio: Here, asked: Annotated[AskedTokens, body(AskedTokens)]) -> Json:
    """Every token with its id, type and place, and both notations of the pieces."""
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
            "right": [show_pieces(tokenizer, ids, "right") for ids in own],
            "left": [show_pieces(tokenizer, ids, "left") for ids in own],
            "kind": tokenizer.kind,
            "vocabulary": tokenizer.vocab_size,
            "unknown": encoding.num_unknown,
            "beyond": max(len(encoding) - most, 0),
            "most": most,
        }
    )


@router.post("/api/tokens/cut")
def cut(studio: Here, asked: Annotated[AskedCut, body(AskedCut)]) -> Json:
    """How words fall into pieces, step by step."""
    return Json(Cutter(studio.model(asked.model).tokenizer).cut(asked.words).to_json())


@router.post("/api/tokens/learn")
def learn(asked: Annotated[AskedLearning, body(AskedLearning)]) -> Json:
    """Every merge with the counts that chose it and those that it changed; at most the best 12 rivals of each."""
    explained = explain(
        parse_words(asked.words), asked.kind, num_merges=asked.merges, tie_break=asked.tie_break
    ).as_dict()
    for merge in explained["merges"]:
        merge["rivals"] = len(merge["candidates"])
        merge["candidates"] = merge["candidates"][:12]
    return Json(explained)
