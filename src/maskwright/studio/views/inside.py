"""Endpoints of the pages Tokens, Meaning, Model and Inspect: what a model makes of a text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from ...core.errors import InputError, RowErrors
from ...core.util import plural
from ...http.model_registry import LoadedModel
from ...inference.similarity import Similarities, text_similarities, word_similarities
from ...inspect.compare import ModelComparison, compare_models
from ...inspect.moves import AttentionChanges, head_moves
from ...inspect.page import page_data, render
from ...inspect.structure import describe_weight, model_structure, weight_differences
from ...inspect.view import Inspection, look
from ...tasks.examples import rows_of
from ...text.tokenizers.explain import SegmentationTracer, explain, format_subwords, parse_words
from ..model_registry import Studio
from ..requests import Here, Json, LongText, Name, RequestModel, ShortText, TextOfModel, TextOrPair, body, in_part

router = APIRouter()


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
def tokens(studio: Here, asked: Annotated[TextOrPair, body(TextOrPair)]) -> Json:
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


class SimilarityRequest(RequestModel):
    """Texts and an optional word; layer: None for the last."""

    model: Name
    texts: Annotated[list[ShortText], Field(min_length=1, max_length=60)]
    word: Name = ""
    layer: Annotated[int, Field(ge=0, le=200)] | None = None


@router.post("/api/meaning")
def meaning(studio: Here, asked: Annotated[SimilarityRequest, body(SimilarityRequest)]) -> Json:
    """Returns the output of `embed --matrix --json` plus a 2-D map of the vectors.

    Whole texts are compared without a word, and with a word that is not in all of them.
    """
    found = studio.model(asked.model)
    word = asked.word.strip()
    with studio.computing:
        try:
            near, note = _compared(found, asked, word)
        except RowErrors as error:
            near, note = _compared(found, asked, "")
            missing = plural(len(error.rows), "sentence does", "sentences do")
            note = f"{missing} not contain the word “{word}”: whole sentences are compared. {note}".strip()
    places, shares = near.plane()
    return Json(near.to_json() | {"plane": places.tolist(), "shares": list(shares), "note": note})


def _compared(found: LoadedModel, asked: SimilarityRequest, word: str) -> tuple[Similarities, str]:
    """Returns the similarities of `word` or, if it is "", of whole texts, and how much was truncated."""
    encoder = found.encoder("last" if asked.layer is None else asked.layer, "none" if word else None)
    before = encoder.counts.cut_tokens
    if word:
        near = word_similarities(encoder, rows_of(asked.texts), word)
    else:
        near = text_similarities(encoder, asked.texts)
    return near, in_part(encoder.counts.cut_tokens - before, encoder.max_length)


MOST_TOKENS = 512  # of the text that flows through the model


class WeightRequest(RequestModel):
    """A parameter of a model."""

    model: Name
    name: Name


class DifferencesRequest(RequestModel):
    """A model and another one; other: "" for the base of its adapter."""

    model: Name
    other: Name = ""


@router.post("/api/model")
def structure(studio: Here, asked: Annotated[TextOfModel, body(TextOfModel)]) -> Json:
    """Returns the blocks of a model, and whether it is an adapter on a base."""
    model = studio.model(asked.model).model
    with studio.computing:
        most = min(MOST_TOKENS, model.config.max_position_embeddings)
        found = model_structure(model, asked.text, most)
    base = None if model.adapter is None else model.adapter.base
    facts = {"base": base, "bytes": sum(one.nbytes for one in model.parameters())}
    return Json({**found.to_json(), **facts, "note": in_part(found.num_truncated, most)})


@router.post("/api/model/weight")
def weight(studio: Here, asked: Annotated[WeightRequest, body(WeightRequest)]) -> Json:
    """Returns distribution and singular values of a parameter."""
    found = studio.model(asked.model).model
    with studio.computing:
        return Json(describe_weight(found, asked.name))


@router.post("/api/model/differences")
def differences(studio: Here, asked: Annotated[DifferencesRequest, body(DifferencesRequest)]) -> Json:
    """Returns the relative change of each parameter, and the names of those that only this model has."""
    found = studio.model(asked.model).model
    other = studio.model(asked.other).model if asked.other else None
    with studio.computing:
        changes, alone = weight_differences(found, other)
    return Json({"changes": changes, "alone": alone})


MOST_PER_SIDE = 96  # of each side, as on the page Attention


class InspectRequest(TextOrPair):
    """A text or pair (for an encoder-decoder a source and its target), and what to compare it with: another text or
    another model. with_attributions: compute attributions, which takes longest.
    """

    against: LongText | None = None
    beside: Name | None = None
    with_attributions: bool = False


@router.post("/api/inspect")
def inspect(studio: Here, asked: Annotated[InspectRequest, body(InspectRequest)]) -> Response:
    """Returns the data of the page, as `page_data` packs it."""
    with studio.computing:
        found = _inspect(studio, asked)
    return Response(page_data(*found), media_type="application/json")


@router.post("/api/inspect/file")
def file(studio: Here, asked: Annotated[InspectRequest, body(InspectRequest)]) -> Json:
    """Returns the HTML file that `maskwright inspect -o` writes."""
    with studio.computing:
        found = _inspect(studio, asked)
    return Json({"html": render(*found)})


def _inspect(
    studio: Studio, asked: InspectRequest
) -> tuple[list[Inspection], AttentionChanges | None, ModelComparison | None]:
    found = studio.model(asked.model)
    if asked.against and asked.beside:
        raise InputError("Compare with another text or with another model, not with both at once.")
    if asked.beside:
        other = studio.model(asked.beside)
        looks = [_look(found, asked.text, asked), _look(other, asked.text, asked)]
        return looks, None, compare_models(found.model, other.model, [_pair(found, asked.text, asked)])
    if asked.against:
        looks = [_look(found, asked.text, asked), _look(found, asked.against, asked)]
        return looks, head_moves(looks[0].attention.main, looks[1].attention.main), None
    return [_look(found, asked.text, asked)], None, None


def _look(found: LoadedModel, text: str, asked: InspectRequest) -> Inspection:
    options: dict[str, Any] = {"target": asked.pair} if found.model.has_decoder else {}
    most = min(MOST_PER_SIDE, found.model.config.max_position_embeddings)
    pair = _pair(found, text, asked)
    return look(
        found.model, pair, name=found.name, max_length=most, with_attributions=asked.with_attributions, **options
    )


def _pair(found: LoadedModel, text: str, asked: InspectRequest) -> str | tuple[str, str]:
    return text if asked.pair is None or found.model.has_decoder else (text, asked.pair)
