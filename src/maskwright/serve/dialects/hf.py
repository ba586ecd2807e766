"""Hugging Face's forms: POST /models/NAME answers what InferenceClient sends, by the kind of the model.

/fill-mask, /tag, /answer, /generate and /translate take the same bodies for the first model that can do it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter
from pydantic import Field, TypeAdapter, ValidationError
from starlette.responses import Response

from ...core.errors import InputError
from ...http.errors import field_of, validation_sentence
from ...inference.fill_mask import FilledText
from ...inference.generate import Generation
from ...inference.translate import TranslationSettings
from ...inspect.attention import attention as attention_in
from ...models.decoding.rules import Rules
from ...tasks.rows.examples import rows_of
from ..models import ServedModel
from ..refusals import wrong_value
from .generating import continuations
from .routing import Body, Call, Text, Texts, add, as_list, json_response
from .tei import Compared, predictions, vectors_of, zero_shot

router = APIRouter(tags=["Hugging Face"])

MOST_TOKENS = 256  # of /attention
MOST_BEAMS = 16


class Asked(Body):
    """What all bodies have in common. options: of the hosted service, without effect here."""

    options: dict[str, Any] | None = None


class FillMaskParameters(Body):
    """top_k: predictions for each mask; targets: rank only these words."""

    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    targets: Annotated[list[str], Field(min_length=1, max_length=100)] | None = None


class FillMaskBody(Asked):
    """inputs: a text with a mask, or a list."""

    inputs: Texts
    parameters: FillMaskParameters = FillMaskParameters()


class TagParameters(Body):
    """aggregation_strategy: entities are always of whole words."""

    aggregation_strategy: str | None = None
    ignore_labels: list[str] | None = None
    stride: int | None = None


class TagBody(Asked):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: TagParameters = TagParameters()


class QuestionInContext(Body):
    """A question, and the text that may have its answer."""

    question: Text
    context: Text


class AnswerParameters(Body):
    """top_k: answers; the others of the hosted service are fixed here."""

    top_k: Annotated[int, Field(ge=1, le=20)] | None = None
    align_to_words: bool | None = None
    doc_stride: int | None = None
    handle_impossible_answer: bool | None = None
    max_answer_len: int | None = None
    max_question_len: int | None = None
    max_seq_len: int | None = None


class AnswerBody(Asked):
    """inputs: a question with its context, or a list."""

    inputs: QuestionInContext | list[QuestionInContext]
    parameters: AnswerParameters = AnswerParameters()


class GenerateParameters(Body):
    """do_sample: draw tokens; otherwise the most probable one is taken."""

    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    do_sample: bool = False
    temperature: Annotated[float, Field(gt=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    num_return_sequences: Annotated[int, Field(ge=1, le=16)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    stop: Annotated[list[str], Field(max_length=4)] | None = None
    return_full_text: bool | None = None
    details: bool | None = None
    decoder_input_details: bool | None = None
    best_of: None = None
    watermark: bool | None = None
    truncate: int | None = None
    typical_p: None = None
    top_n_tokens: int | None = None
    adapter_id: None = None
    frequency_penalty: None = None
    grammar: None = None


class GenerateBody(Asked):
    """inputs: a prompt."""

    inputs: Text
    parameters: GenerateParameters = GenerateParameters()
    stream: bool = False


class TranslateParameters(Body):
    """tgt_lang: target language of a multilingual model; beams: of the search."""

    src_lang: str | None = None
    tgt_lang: str | None = None
    beams: Annotated[int, Field(ge=1, le=MOST_BEAMS)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    clean_up_tokenization_spaces: bool | None = None
    truncation: str | None = None
    generate_parameters: dict[str, Any] | None = None


class TranslateBody(Asked):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: TranslateParameters = TranslateParameters()


class AttentionBody(Asked):
    """layers, heads: numbers from 1, all by default."""

    inputs: Text
    layers: Annotated[list[int], Field(max_length=200)] | None = None
    heads: Annotated[list[int], Field(max_length=200)] | None = None


class ClassifyParameters(Body):
    """candidate_labels: classes without training; top_k: how many classes are returned."""

    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    function_to_apply: str | None = None
    candidate_labels: Annotated[list[str], Field(min_length=2, max_length=100)] | None = None
    hypothesis_template: str | None = None
    multi_label: bool | None = None


class ClassifyBody(Asked):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: ClassifyParameters = ClassifyParameters()


class VectorsParameters(Body):
    """normalize: to length 1; as the folder declares by default."""

    normalize: bool | None = None
    prompt_name: None = None
    truncate: bool | None = None
    truncation_direction: str | None = None


class VectorsBody(Asked):
    """inputs: a text or a list, or a sentence with others to compare it with."""

    inputs: Texts | Compared
    normalize: bool | None = None
    prompt_name: None = None
    truncate: bool | None = None
    truncation_direction: str | None = None
    parameters: VectorsParameters = VectorsParameters()


class AnyRequest(Body):
    """inputs and parameters as the kind of the model needs them."""

    inputs: Any
    parameters: dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    stream: bool | None = None
    normalize: bool | None = None
    truncate: bool | None = None
    truncation_direction: str | None = None
    prompt_name: None = None


async def fill_mask(call: Call) -> Response:
    """Predictions for the masks of texts."""
    body: FillMaskBody = call.body
    texts = as_list(body.inputs)
    model = call.service.find(call.exchange, "fill-mask", call.name)
    top_k, targets = body.parameters.top_k or 5, body.parameters.targets
    filled = await call.service.compute(
        call.request,
        call.exchange,
        model,
        texts,
        lambda: model.filler.prepare(texts, None if targets else top_k, targets),
    )
    found = [_masks(one) for one in filled]
    return json_response(found[0] if isinstance(body.inputs, str) else found)


async def tag(call: Call) -> Response:
    """Entities of texts, with their characters."""
    body: TagBody = call.body
    texts = as_list(body.inputs)
    model = call.service.find(call.exchange, "tag", call.name)
    answers = await call.service.compute(
        call.request, call.exchange, model, texts, lambda: model.predictor.prepare(rows_of(texts))
    )
    found = [_entities(answer) for answer in answers]
    return json_response(found[0] if isinstance(body.inputs, str) else found)


async def answer(call: Call) -> Response:
    """Answers of questions, with their characters in the context."""
    body: AnswerBody = call.body
    asked = body.inputs if isinstance(body.inputs, list) else [body.inputs]
    if not asked:
        as_list([])
    model = call.service.find(call.exchange, "answer", call.name)
    top_k = body.parameters.top_k or 1
    questions = [(one.question, one.context) for one in asked]
    answers = await call.service.compute(
        call.request,
        call.exchange,
        model,
        [text for pair in questions for text in pair],
        lambda: model.answerer.prepare(questions, top_k),
        num_items=len(questions),
    )
    if top_k > 1:
        found: list[Any] = [one.candidates for one in answers]
    else:
        found = [{name: one.answer[name] for name in ("answer", "score", "start", "end")} for one in answers]
    return json_response(found if isinstance(body.inputs, list) else found[0])


async def generate(call: Call) -> Response:
    """Continuations of a prompt."""
    body: GenerateBody = call.body
    given = body.parameters
    prompts = as_list(body.inputs)
    if body.stream:
        raise wrong_value("'stream' is for /v1/completions.", "stream")
    model = call.service.find(call.exchange, "generate", call.name)
    most = call.service.settings.max_new_tokens
    wanted = given.max_new_tokens or min(50, most)
    if wanted > most:
        raise wrong_value(f"'max_new_tokens' is {wanted:,}; at most {most:,} are allowed.", "parameters.max_new_tokens")
    try:
        settings = Generation(
            max_new_tokens=wanted,
            rules=_rules(given),
            num_results=given.num_return_sequences,
            stop=tuple(given.stop or ()),
            seed=given.seed or 0,
        )
    except InputError as error:
        raise wrong_value(str(error), "parameters") from None
    found = (await continuations(call, model, prompts, settings))[0]
    before = body.inputs if given.return_full_text else ""
    return json_response([{"generated_text": before + one.text} for one in found])


async def translate(call: Call) -> Response:
    """Translations of texts."""
    body: TranslateBody = call.body
    texts = as_list(body.inputs)
    model = call.service.find(call.exchange, "translate", call.name)
    given = body.parameters
    options: dict[str, Any] = {"to": given.tgt_lang, "max_new_tokens": given.max_new_tokens}
    if given.beams is not None:
        options["beams"] = given.beams
    try:
        settings = TranslationSettings(**options)
    except InputError as error:
        raise wrong_value(str(error), "parameters") from None

    def steps(emit: Callable[[Any], None]) -> Generator[None, None, list[str]]:
        found = []
        for text in texts:  # a text is a step
            found.append(model.translator.translate([text], settings)[0][0].text)
            yield
        return found

    found = await call.service.run(call.request, call.exchange, texts, steps)
    return json_response([{"translation_text": text} for text in found])


async def attention(call: Call) -> Response:
    """Attention weights of a text."""
    body: AttentionBody = call.body
    texts = as_list(body.inputs)
    model = call.service.find(call.exchange, "attention", call.name)
    longest = min(MOST_TOKENS, model.model.config.max_position_embeddings)
    count = await call.service.in_text_thread(
        call.exchange, model, texts, lambda: len(model.tokenizer.encode_batch(texts)[0])
    )
    call.exchange.num_truncated = int(count > longest)
    call.exchange.num_tokens = min(count, longest)

    def steps(emit: Callable[[Any], None]) -> Generator[None, None, dict[str, Any]]:
        found = attention_in(model.model, body.inputs, max_length=longest)
        yield
        return found.select(body.layers, body.heads).to_json()

    return json_response(await call.service.run(call.request, call.exchange, texts, steps))


async def by_task(call: Call) -> Response:
    """Answers by the kind of the model, in the form of its task."""
    model = call.service.find(call.exchange, "tokenize", call.name)
    kind, answering = _route_of(model, call.body)
    given = call.body.model_dump(exclude_none=True)
    try:
        call.body = TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        raise wrong_value(validation_sentence(error), field_of(error) or None) from None
    return await answering(call)


def _route_of(model: ServedModel, body: AnyRequest) -> tuple[type[Body], Callable[[Call], Any]]:
    if "candidate_labels" in (body.parameters or {}):
        return ClassifyBody, _classified
    routes: dict[str | None, tuple[type[Body], Callable[[Call], Any]]] = {
        "classification": (ClassifyBody, _classified),
        "regression": (ClassifyBody, _classified),
        "anomaly": (ClassifyBody, _classified),
        "tagging": (TagBody, tag),
        "tagging-crf": (TagBody, tag),
        "qa": (AnswerBody, answer),
        "mlm": (FillMaskBody, fill_mask),
        "pretraining": (FillMaskBody, fill_mask),
        "clm": (GenerateBody, generate),
        "generation": (GenerateBody, generate),
        "seq2seq": (TranslateBody, translate),
    }
    return routes.get(model.role, (VectorsBody, _vectors))


async def _classified(call: Call) -> Response:
    body: ClassifyBody = call.body
    texts = as_list(body.inputs)
    given = body.parameters
    if given.candidate_labels is not None:
        template = given.hypothesis_template or "This text is about {}."
        _, found = await zero_shot(call, list(texts), given.candidate_labels, template, True)
    else:
        model = call.service.find(call.exchange, "predict", call.name)
        found = await predictions(call, model, list(texts), given.function_to_apply == "none", True)
    return json_response([one[: given.top_k] for one in found])


async def _vectors(call: Call) -> Response:
    body: VectorsBody = call.body
    model = call.service.find(call.exchange, "embed", call.name)
    if isinstance(body.inputs, Compared):
        texts = as_list(body.inputs.sentences, "inputs.sentences")
        vectors = await vectors_of(call, model, [body.inputs.source_sentence, *texts], True)
        return json_response((vectors[1:] @ vectors[0]).tolist())
    normalize = body.normalize if body.normalize is not None else body.parameters.normalize
    given = body.truncate if body.truncate is not None else body.parameters.truncate
    truncate = True if given is None else given
    found = await vectors_of(call, model, as_list(body.inputs), normalize, truncate=truncate)
    return json_response(np.ascontiguousarray(found))


def _rules(given: GenerateParameters) -> Rules:
    penalty = given.repetition_penalty or 1.0
    if not given.do_sample:
        return Rules(greedy=True, repetition_penalty=penalty)
    return Rules(False, given.temperature or 1.0, given.top_k, given.top_p, penalty)


def _masks(filled: FilledText) -> list[Any]:
    """Predictions of one mask as a list, of several as a list of lists."""
    found = [
        [
            {"score": one.score, "token": one.token, "token_str": one.token_str, "sequence": one.sequence}
            for one in mask.candidates
        ]
        for mask in filled.masks
    ]
    return found[0] if len(found) == 1 else found


def _entities(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "entity_group": one["type"],
            "score": one["score"],
            "word": one["text"],
            "start": one["start"],
            "end": one["end"],
        }
        for one in answer["entities"]
    ]


add(router, "POST", "/fill-mask", fill_mask, FillMaskBody, summary="Predictions for masks", named=True)
add(router, "POST", "/tag", tag, TagBody, summary="Entities of texts", named=True)
add(router, "POST", "/answer", answer, AnswerBody, summary="Answers of questions", named=True)
add(router, "POST", "/generate", generate, GenerateBody, summary="Continuations of a prompt", named=True)
add(router, "POST", "/translate", translate, TranslateBody, summary="Translations", named=True)
add(router, "POST", "/attention", attention, AttentionBody, summary="Attention weights of a text", named=True)
add(router, "POST", "/models/{name:path}", by_task, AnyRequest, summary="By the kind of the model")
