"""Hugging Face's forms: POST /models/NAME answers what InferenceClient sends, by the kind of the model.

/fill-mask, /tag, /answer, /generate and /translate take the same bodies for the first model that can do it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from fastapi import APIRouter
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from ...core.errors import InputError
from ...http.errors import field_of, validation_sentence
from ...inference.fill_mask import FilledText
from ...inference.generate import Continuation, Generation
from ...inference.translate import TranslationSettings
from ...inspect.attention import attention as attention_in
from ...models.decoding.rules import Rules
from ...tasks.rows.examples import rows_of
from ..models import ServedModel
from ..refusals import wrong_value
from .generating import continuations, event_stream
from .hf_bodies import (
    AnswerBody,
    AnyRequest,
    AttentionBody,
    ClassifyBody,
    FillMaskBody,
    GenerateBody,
    GenerateParameters,
    TagBody,
    TranslateBody,
    VectorsBody,
)
from .routing import Body, Call, add, as_list, json_response
from .tei import predictions, vectors_of, zero_shot
from .tei_bodies import Compared

router = APIRouter(tags=["Hugging Face"])

MOST_TOKENS = 256  # of /attention
FINISH_REASONS = {"end": "eos_token", "stop": "stop_sequence", "length": "length"}


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
    """Entities of texts, or their words with tags, and where they are."""
    body: TagBody = call.body
    texts = as_list(body.inputs)
    model = call.service.find(call.exchange, "tag", call.name)
    answers = await call.service.compute(
        call.request, call.exchange, model, texts, lambda: model.predictor.prepare(rows_of(texts))
    )
    found = [_entities(text, answer) for text, answer in zip(texts, answers, strict=True)]
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
    """Continuations of a prompt, on request as they are generated."""
    body: GenerateBody = call.body
    given = body.parameters
    prompts = as_list(body.inputs)
    if body.stream and given.num_return_sequences > 1:
        raise wrong_value("'stream' needs num_return_sequences = 1.", "stream")
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
    before = body.inputs if given.return_full_text else ""
    if body.stream:
        return await event_stream(call, model, prompts[0], settings, partial(_streamed, count(1), before))
    found = (await continuations(call, model, prompts, settings))[0]
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

    found = await call.service.run(call.request, call.exchange, texts, steps, settings.beams)
    return json_response([{"translation_text": text} for text in found])


async def attention(call: Call) -> Response:
    """Attention weights of a text."""
    body: AttentionBody = call.body
    texts = as_list(body.inputs)
    model = call.service.find(call.exchange, "attention", call.name)
    longest = min(MOST_TOKENS, model.model.config.max_position_embeddings)
    length = await call.service.in_text_thread(
        call.exchange, model, texts, lambda: len(model.tokenizer.encode_batch(texts)[0])
    )
    call.exchange.num_truncated = int(length > longest)
    call.exchange.num_tokens = min(length, longest)

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
    routes: dict[str, tuple[type[Body], Callable[[Call], Any]]] = {
        "classify": (ClassifyBody, _classified),
        "tag": (TagBody, tag),
        "answer": (AnswerBody, answer),
        "fill-mask": (FillMaskBody, fill_mask),
        "generate": (GenerateBody, generate),
        "translate": (TranslateBody, translate),
    }
    return next((route for ability, route in routes.items() if model.kind.can(ability)), (VectorsBody, _vectors))


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


def _streamed(numbers: Iterator[int], before: str, part: str | Continuation) -> dict[str, Any]:
    """An event of a stream. Its "token" is the text that has become certain, which may be of several tokens."""
    is_last = not isinstance(part, str)
    token = {"id": None, "text": "" if is_last else part, "logprob": None, "special": is_last}
    event = {"index": next(numbers), "token": token, "generated_text": None, "details": None}
    if isinstance(part, str):
        return event
    details = {"finish_reason": FINISH_REASONS[part.ended_by], "generated_tokens": part.num_tokens}
    return {**event, "generated_text": before + part.text, "details": details}


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


def _entities(text: str, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Entities, or all words if the tags have no scheme, as parts of speech have none."""
    if "entities" in answer:
        found = [(one["type"], one["score"], one["start"], one["end"]) for one in answer["entities"]]
    else:
        words = zip(answer["tags"], answer["scores"], answer["spans"], strict=True)
        found = [(tag, score, start, end) for tag, score, (start, end) in words]
    return [
        {"entity_group": type, "score": score, "word": text[start:end], "start": start, "end": end}
        for type, score, start, end in found
    ]


add(router, "POST", "/fill-mask", fill_mask, FillMaskBody, summary="Predictions for masks", named=True)
add(router, "POST", "/tag", tag, TagBody, summary="Entities of texts", named=True)
add(router, "POST", "/answer", answer, AnswerBody, summary="Answers of questions", named=True)
add(router, "POST", "/generate", generate, GenerateBody, summary="Continuations of a prompt", named=True)
add(router, "POST", "/translate", translate, TranslateBody, summary="Translations", named=True)
add(router, "POST", "/attention", attention, AttentionBody, summary="Attention weights of a text", named=True)
add(router, "POST", "/models/{name:path}", by_task, AnyRequest, summary="By the kind of the model")
