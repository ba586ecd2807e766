"""Endpoints of the pages with answers: of fine-tuned heads, masks, generated text, translations, and the part "Why"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from ...inference.generate import Generation, TextGenerator
from ...inference.predict import Predictor
from ...inference.translate import TranslationSettings
from ...inspect.compare import differences
from ...inspect.outputs import Output, output_of
from ...inspect.reading import read
from ...inspect.reasons import MAX_TOKENS, explain, one_word_changes
from ...models.decoding.rules import Rules
from ...tasks.base import AnyRow
from ...tasks.examples import rows_of
from ...tasks.tagging.task import Tagging
from ...tasks.translation import NO_ATTENTION, alignments, attends, shown_attention
from ...text.readers.choices import choices_of
from ...text.words import split_words
from ..model_registry import Studio
from ..requests import Here, Json, LongText, Name, RequestModel, TextOfModel, TextOrPair, body, in_part

router = APIRouter()


class ChoiceRequest(TextOfModel):
    """A context, an optional question, and the choices."""

    question: LongText = ""
    choices: Annotated[list[LongText], Field(min_length=2, max_length=20)]


class QuestionRequest(RequestModel):
    """A question and the context that may contain its answer."""

    model: Name
    question: LongText
    context: LongText
    top_k: Annotated[int, Field(ge=1, le=20)] = 5


@router.post("/api/classify")
def classify(studio: Here, asked: Annotated[TextOrPair, body(TextOrPair)]) -> Json:
    """Returns one prediction of `Predictor.predict` and the task."""
    found = studio.model_with(asked.model, "classify")
    with studio.computing:
        told = _told(found.predictor, rows_of([asked.text if asked.pair is None else (asked.text, asked.pair)]))
    return Json({"task": found.predictor.task.name} | told)


@router.post("/api/tag")
def tag(studio: Here, asked: Annotated[TextOfModel, body(TextOfModel)]) -> Json:
    """Returns words with tags, and entities with character offsets; spans: character offsets of each word."""
    found = studio.model_with(asked.model, "tag")
    with studio.computing:
        told = _told(found.predictor, rows_of([asked.text]))
    assert isinstance(found.predictor.task, Tagging)
    return Json({"spans": found.predictor.task.segment(asked.text)} | told)


@router.post("/api/choose")
def choose(studio: Here, asked: Annotated[ChoiceRequest, body(ChoiceRequest)]) -> Json:
    """Returns the predicted choice and the probability of each."""
    found = studio.model_with(asked.model, "choose")
    rows = choices_of(
        [{"context": asked.text, "question": asked.question, "choices": asked.choices}], with_labels=False
    )
    with studio.computing:
        return Json(_told(found.predictor, rows))


@router.post("/api/answer")
def answer(studio: Here, asked: Annotated[QuestionRequest, body(QuestionRequest)]) -> Json:
    """Returns the answer of `Answerer.answer` and the top-scoring answer spans."""
    found = studio.model_with(asked.model, "answer")
    with studio.computing:
        answered = found.answerer.answer([(asked.question, asked.context)], asked.top_k)[0]
    return Json({"answer": answered.answer, "candidates": answered.candidates})


def _told(predictor: Predictor, rows: Iterable[AnyRow]) -> dict[str, Any]:
    """Returns the prediction for one example, with a message if its text was truncated."""
    before = predictor.counts.cut_tokens
    answer = next(answer for _, answer in predictor.stream(rows))
    return {"answer": answer, "note": in_part(predictor.counts.cut_tokens - before, predictor.max_length)}


class FillMaskRequest(TextOfModel):
    """A text with mask tokens; words: tokens whose rank and probability are requested."""

    top_k: Annotated[int, Field(ge=1, le=1000)] = 8
    words: Annotated[list[Name], Field(max_length=100, default_factory=list)]


@router.post("/api/fill-mask")
def fill_mask(studio: Here, asked: Annotated[FillMaskRequest, body(FillMaskRequest)]) -> Json:
    """Returns the result of `MaskFiller.fill`, and for each mask `asked`: the requested words."""
    found = studio.model_with(asked.model, "fill-mask")
    with studio.computing:
        filled = found.filler.fill([asked.text], asked.top_k)[0].to_json()
        others = found.filler.fill([asked.text], None, asked.words)[0].to_json() if asked.words else None
    for index, mask in enumerate(filled["masks"]):
        mask["asked"] = others["masks"][index]["predictions"] if others else []
    return Json(filled | {"vocabulary": found.tokenizer.vocab_size})


class SuggestionsRequest(TextOfModel):
    """The prompt; k: number of suggestions."""

    k: Annotated[int, Field(ge=1, le=10)] = 3
    max_new_tokens: Annotated[int, Field(ge=1, le=32)] = 8


class TextRequest(TextOfModel):
    """The prompt and the sampling settings; temperature None selects greedy decoding."""

    max_new_tokens: Annotated[int, Field(ge=1, le=300)] = 50
    temperature: Annotated[float, Field(gt=0, le=10)] | None = 1.0
    top_k: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    num_results: Annotated[int, Field(ge=1, le=10)] = 3
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


@router.post("/api/complete")
def complete(studio: Here, asked: Annotated[SuggestionsRequest, body(SuggestionsRequest)]) -> Json:
    """Returns the result of `TextGenerator.complete`."""
    found = studio.model_with(asked.model, "generate")
    with studio.computing:
        suggestions = found.generator.complete(asked.text, asked.k, asked.max_new_tokens)
    return Json({"suggestions": [one.to_json() for one in suggestions], "note": _unseen(found.generator, asked.text)})


@router.post("/api/generate")
def generate(studio: Here, asked: Annotated[TextRequest, body(TextRequest)]) -> Json:
    """Returns the result of `TextGenerator.generate`."""
    found = studio.model_with(asked.model, "generate")
    is_greedy = asked.temperature is None
    rules = Rules(greedy=True) if is_greedy else Rules(False, asked.temperature or 1.0, asked.top_k, asked.top_p)
    settings = Generation(
        max_new_tokens=asked.max_new_tokens,
        rules=rules,
        num_results=1 if is_greedy else asked.num_results,
        seed=asked.seed,
    )
    with studio.computing:
        continuations = found.generator.generate([asked.text], settings)[0]
    return Json(
        {"continuations": [one.to_json() for one in continuations], "note": _unseen(found.generator, asked.text)}
    )


def _unseen(generator: TextGenerator, text: str) -> str:
    """Returns a message if the beginning of the text was truncated, else ""."""
    return in_part(max(len(generator.ids_of(text)) - generator.context_length, 0), generator.context_length)


MOST_LINES = 50
MOST_WORDS = 96  # of a side: more are no picture


class TranslationRequest(RequestModel):
    """Texts, the number of translations per text, and the fields of `TranslationSettings`."""

    model: Name
    texts: Annotated[list[LongText], Field(min_length=1, max_length=MOST_LINES)]
    beams: Annotated[int, Field(ge=1, le=16)] = 4
    num_results: Annotated[int, Field(ge=1, le=16)] = 3
    length_penalty: Annotated[float, Field(ge=0, le=5)] = 1.0
    to: Name = ""


class AlignmentRequest(TextOfModel):
    """A text, one of its translations, and the requested target language, "" for none."""

    translation: LongText
    to: Name = ""


@router.post("/api/translate")
def translate(studio: Here, asked: Annotated[TranslationRequest, body(TranslationRequest)]) -> Json:
    """Returns the result of `TextTranslator.translate` and the target languages of the model.

    If the model has no attention, the result includes a message about it.
    """
    found = studio.model_with(asked.model, "translate")
    settings = TranslationSettings(
        beams=asked.beams,
        num_results=min(asked.num_results, asked.beams),
        length_penalty=asked.length_penalty,
        to=asked.to or None,
    )
    translator = found.translator
    with studio.computing:
        before = translator.counts.cut_tokens
        translated = translator.translate(asked.texts, settings)
        note = in_part(translator.counts.cut_tokens - before, translator.max_length)
    return Json(
        {
            "texts": [
                {"text": text, "translations": [asdict(one) for one in several]}
                for text, several in zip(asked.texts, translated, strict=True)
            ],
            "languages": list(translator.task.languages),
            "note": note,
            "unaligned": None if attends(found.model) else NO_ATTENTION,
        }
    )


@router.post("/api/translate/alignment")
def alignment(studio: Here, asked: Annotated[AlignmentRequest, body(AlignmentRequest)]) -> Json:
    """Returns `alignments` of one text for the first MOST_WORDS words of either side, and the kind of attention."""
    found = studio.model_with(asked.model, "translate")
    translator = found.translator
    pair = translator.source_of(asked.text, asked.to or None), asked.translation
    with studio.computing:
        (own,) = alignments(found.model, translator.task, [pair], translator.max_length)
    return Json(
        {
            "source": shown_attention(found.model),
            "read": own.source[:MOST_WORDS],
            "written": own.target[:MOST_WORDS],
            "weights": own.weights[:MOST_WORDS, :MOST_WORDS].tolist(),
            "most": MOST_WORDS if max(own.weights.shape) > MOST_WORDS else None,
        }
    )


class WhyRequest(TextOrPair):
    """Its pair is a question and its context; place: the number of a mask; start: a character of a tagged word."""

    place: Annotated[int, Field(ge=0)] = 0
    start: Annotated[int, Field(ge=0)] = 0


class DifferencesRequest(RequestModel):
    """Two answers to compare."""

    first: WhyRequest
    second: WhyRequest


@router.post("/api/why")
def why(studio: Here, asked: Annotated[WhyRequest, body(WhyRequest)]) -> Json:
    """Returns the result of `explain` for the predicted answer."""
    with studio.computing:
        return Json(explain(_output(studio, asked)).to_json())


@router.post("/api/why/changes")
def changes(studio: Here, asked: Annotated[WhyRequest, body(WhyRequest)]) -> Json:
    """Returns the changes of one word that change the answer. The model's own language model head proposes words if it
    has one, else `english`.
    """
    with studio.computing:
        found = one_word_changes(_output(studio, asked), studio.proposer_for(asked.model))
    return Json(found.to_json())


@router.post("/api/why/differences")
def compare(studio: Here, asked: Annotated[DifferencesRequest, body(DifferencesRequest)]) -> Json:
    """Returns both results of `explain`, for the answer of the first if both have it, and their differences."""
    with studio.computing:
        first = explain(_output(studio, asked.first))
        output = _output(studio, asked.second)
        second = explain(output, answer=first.answer if output.knows(first.answer) else None)
    return Json({"first": first.to_json(), "second": second.to_json(), "differences": differences(first, second)})


def _output(studio: Studio, asked: WhyRequest) -> Output:
    """Reads the text as the page does: with the same maximum length, and the temperature of a calibrated classifier."""
    found = studio.model(asked.model)
    text = asked.text if asked.pair is None else (asked.text, asked.pair)
    is_masked = found.kind.can("fill-mask")
    room = found.model.config.max_position_embeddings if is_masked else found.predictor.max_length
    most = min(room, MAX_TOKENS + 1)  # one more is rejected, with the number
    if is_masked:
        return output_of(read(found.model, text, max_length=most), asked.place)
    task = found.predictor.task
    temperature = 1.0 if task.temperature is None else task.temperature.value
    segment = task.segment if isinstance(task, Tagging) else split_words
    return output_of(read(found.model, text, max_length=most), 0, asked.start, temperature, segment)
