"""Hugging Face's forms: POST /models/NAME answers what InferenceClient sends, by the kind of the model.

POST / does so for the first model, and reranks. /fill-mask, /tag, /answer, /generate and /translate take the same
bodies for the first model that can do it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from starlette.responses import Response

from ...core.errors import InputError
from ...http.bodies import field_of, validation_sentence
from ...http.model_registry import LoadedModel
from ...inference.answer import Answer, AnswerSettings
from ...inference.fill_mask import FilledText
from ...inference.generate import Continuation, Generation
from ...inference.token_entities import check_ignored, prepare_entities
from ...inference.translate import TranslationSettings
from ...inference.zero_shot import TEMPLATE
from ...inspect.attention import attention as attention_in
from ...models.decoding.rules import COLDEST, Rules
from ...tasks.examples import rows_of
from ...tasks.tagging.schemes import OUTSIDE
from ..request_context import too_large, wrong_value
from .routing import (
    Answering,
    AnyBody,
    Body,
    Call,
    Text,
    Texts,
    Unsupported,
    add,
    as_list,
    continuations,
    event_stream,
    json_response,
    optional,
)
from .tei import EmbedBody, RerankBody, SimilarityBody, embed, predictions, rerank, similarity, zero_shot

# -- Request bodies of Hugging Face's InferenceClient: each of its parameters works or is rejected with the reason
#
# docs/reference/http-parameters.md is written from the descriptions here.


MOST_BEAMS = 16

TopK = Annotated[int | None, Field(ge=1, le=1000)]


class Options(Body):
    """What older clients send; both change nothing, because nothing is cached and a loading server answers 503."""

    use_cache: bool | None = optional("Changes nothing: no answer is cached.")
    wait_for_model: bool | None = optional("Changes nothing: 503 until the models are loaded.")


class PipelineBody(Body):
    """What all bodies have in common."""

    options: Options | None = None


class FillMaskParameters(Body):
    """Parameters of fill_mask."""

    top_k: TopK = optional("Predictions for each mask; 5, or all targets.")
    targets: list[str] | None = optional(
        "Rank only these words, each one token of the vocabulary.", min_length=1, max_length=100
    )


class FillMaskBody(PipelineBody):
    """inputs: a text with a mask, or a list."""

    inputs: Texts
    parameters: FillMaskParameters = FillMaskParameters()


class TagParameters(Body):
    """Parameters of token_classification."""

    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = optional(
        "As the pipelines of transformers: none gives every token. By default, words as in training: "
        "tagged at their first token. No CRF."
    )
    ignore_labels: list[str] | None = optional(
        "Types that are skipped, with none tags; O. Without O, words are as with first.", max_length=1000
    )
    stride: int | None = optional(
        "Tokens that windows of a long text share; a quarter. Words are as with first. No CRF.", ge=0
    )


class TagBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: TagParameters = TagParameters()


class QuestionInContext(Body):
    """A question, and the text that may have its answer."""

    question: Text
    context: Text


class AnswerParameters(Body):
    """Parameters of question_answering."""

    top_k: int | None = optional("Answers; above 1 the reply is a list.", ge=1, le=20)
    align_to_words: bool | None = optional("Whether answers are whole words; true.")
    doc_stride: int | None = optional("Tokens that windows of a long context share; a third, at most 128.", ge=0)
    handle_impossible_answer: bool | None = optional(
        "Whether the answer may be empty, by the threshold of the model; as it was trained."
    )
    max_answer_len: int | None = optional("Longest answer in tokens; 30.", ge=1, le=10_000)
    max_question_len: int | None = optional("Longer questions are truncated; 64.", ge=1)
    max_seq_len: int | None = optional("Tokens of a window; as in training.", ge=1)


class AnswerBody(PipelineBody):
    """inputs: a question with its context, or a list."""

    inputs: QuestionInContext | list[QuestionInContext]
    parameters: AnswerParameters = AnswerParameters()


class GenerateParameters(Body):
    """Parameters of text_generation."""

    max_new_tokens: int | None = optional("Longest continuation; 50.", ge=1)
    do_sample: bool | None = optional(
        "Whether tokens are drawn; by default if temperature, top_k or top_p is given, otherwise the "
        "most probable one is taken."
    )
    temperature: float | None = optional("Divisor of the logits; 1.", ge=COLDEST, le=100)
    top_k: int | None = optional("Draws from that number of tokens.", ge=1)
    top_p: float | None = optional("Draws from tokens of this probability.", gt=0, le=1)
    repetition_penalty: float | None = optional("Above 1, tokens that were there are less probable.", ge=COLDEST, le=10)
    num_return_sequences: int = Field(default=1, ge=1, le=16, description="Continuations of the prompt.")
    seed: int | None = optional("Of what is drawn; another one each time.", ge=0, lt=2**63)
    stop: list[str] | None = optional("Texts that end the continuation.", max_length=4)
    return_full_text: bool | None = optional("Whether the prompt comes first; false.")
    details: bool | None = optional("Only with stream, whose last event has them.")
    adapter_id: Annotated[Any, Unsupported("serve the adapter as a separate model")] = None
    best_of: Annotated[Any, Unsupported("use num_return_sequences", 1)] = None
    decoder_input_details: Annotated[Any, Unsupported("/tokenize gives the tokens of a prompt", False)] = None
    frequency_penalty: Annotated[Any, Unsupported("use repetition_penalty", 0, 0.0)] = None
    grammar: Annotated[Any, Unsupported("nothing constrains the text")] = None
    top_n_tokens: Annotated[Any, Unsupported("no other tokens are returned", 0)] = None
    truncate: Annotated[Any, Unsupported("a longer prompt keeps its last tokens")] = None
    typical_p: Annotated[Any, Unsupported("use top_p", 1, 1.0)] = None
    watermark: Annotated[Any, Unsupported("no watermark is written", False)] = None


class GenerateBody(PipelineBody):
    """inputs: a prompt."""

    inputs: Text
    parameters: GenerateParameters = GenerateParameters()
    stream: bool = False


class SearchParameters(Body):
    """What translation and summarization have in generate_parameters."""

    num_beams: int | None = Field(default=None, ge=1, le=MOST_BEAMS)
    length_penalty: float | None = Field(default=None, ge=-10, le=10)
    max_new_tokens: int | None = Field(default=None, ge=1)


class TranslateParameters(Body):
    """Parameters of translation and summarization."""

    src_lang: str | None = optional(
        "Only with tgt_lang, as the client sends it; models here read each of their languages."
    )
    tgt_lang: str | None = optional("Target language of a multilingual model.")
    clean_up_tokenization_spaces: Annotated[
        Any, Unsupported("texts are written as the tokenizer of the model decodes them", False)
    ] = None
    truncation: Literal["longest_first", "only_first", "do_not_truncate"] | None = optional(
        "do_not_truncate rejects a longer text (413), as it is truncated otherwise."
    )
    generate_parameters: SearchParameters | None = optional("num_beams, length_penalty, max_new_tokens.")
    beams: int | None = optional("As num_beams.", ge=1, le=MOST_BEAMS)
    max_new_tokens: int | None = optional("As in generate_parameters.", ge=1)


class TranslateBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: TranslateParameters = TranslateParameters()


class AttentionBody(PipelineBody):
    """layers, heads: numbers from 1, all by default."""

    inputs: Text
    layers: Annotated[list[int], Field(max_length=200)] | None = None
    heads: Annotated[list[int], Field(max_length=200)] | None = None


class ClassifyParameters(Body):
    """Parameters of text_classification."""

    top_k: TopK = optional("Classes that are returned; all.")
    function_to_apply: Literal["softmax", "sigmoid", "none"] | None = optional(
        "From the outputs to the scores; by default softmax of single classes, sigmoid of several, none of a number."
    )


class ClassifyBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: ClassifyParameters = ClassifyParameters()


class ZeroShotParameters(Body):
    """Parameters of zero_shot_classification."""

    candidate_labels: Annotated[list[str], Field(min_length=2, max_length=100, description="Classes, by any names.")]
    hypothesis_template: str = Field(
        default=TEMPLATE, max_length=1000, description=f"Sentence with {{}} for the class; {TEMPLATE}"
    )
    multi_label: bool | None = optional(
        "Whether each class is scored by itself; needs a model with the class entailment. The scores "
        "of an encoder are similarities."
    )


class ZeroShotBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: ZeroShotParameters


class VectorsBody(EmbedBody):
    """Parameters of feature_extraction, which the client sends along with the inputs: a text or a list."""

    options: Options | None = None
    normalize: bool | None = Field(  # type: ignore[assignment]  # wider than that of /embed
        default=None, description="To length 1; as the folder declares."
    )
    encoding_format: Annotated[
        Any,
        Unsupported("the client reads numbers only; /v1/embeddings writes base64", "float"),
        Field(description="Numbers."),
    ] = None


class AnyRequest(Body):
    """inputs and parameters as the kind of the model needs them."""

    model_config = ConfigDict(extra="allow")

    inputs: Any
    parameters: dict[str, Any] | None = None


class RootBody(AnyRequest):
    """inputs and parameters as the kind of the first model needs them, or what /rerank takes."""

    inputs: Any = None


# Parameters of the methods of InferenceClient.
METHODS: dict[str, type[Body]] = {
    "feature_extraction": VectorsBody,
    "fill_mask": FillMaskParameters,
    "question_answering": AnswerParameters,
    "sentence_similarity": SimilarityBody,
    "text_classification": ClassifyParameters,
    "text_generation": GenerateParameters,
    "token_classification": TagParameters,
    "translation": TranslateParameters,
    "summarization": TranslateParameters,
    "zero_shot_classification": ZeroShotParameters,
}


router = APIRouter(tags=["Hugging Face"])

MOST_TOKENS = 256  # of /attention
FINISH_REASONS = {"end": "eos_token", "stop": "stop_sequence", "length": "length"}


async def fill_mask(call: Call, body: FillMaskBody) -> Response:
    """Predictions for the masks of texts."""
    texts = as_list(body.inputs)
    model = call.find("fill-mask")
    targets = body.parameters.targets
    top_k = body.parameters.top_k or (None if targets else 5)
    filled = await call.compute(model, texts, lambda: model.filler.prepare(texts, top_k, targets))
    found = [_masks(one) for one in filled]
    return json_response(found[0] if isinstance(body.inputs, str) else found)


async def tag(call: Call, body: TagBody) -> Response:
    """Entities of texts, or their words with tags, and where they are."""
    texts = as_list(body.inputs)
    model = call.find("tag")
    given = body.parameters
    ignored = (OUTSIDE,) if given.ignore_labels is None else given.ignore_labels
    try:
        check_ignored(model.predictor.task, ignored, given.aggregation_strategy)
    except InputError as error:
        raise wrong_value(str(error), "parameters.ignore_labels") from None
    if given.aggregation_strategy is None and given.stride is None and OUTSIDE in ignored:  # words, as in training
        answers = await call.compute(model, texts, lambda: model.predictor.prepare(rows_of(texts)))
        whole = [_entities(text, answer) for text, answer in zip(texts, answers, strict=True)]
        found = [[entity for entity in one if entity["entity_group"] not in ignored] for one in whole]
    else:
        strategy = given.aggregation_strategy or "first"
        found = await call.compute(
            model, texts, lambda: prepare_entities(model.predictor, texts, strategy, given.stride, ignored)
        )
    return json_response(found[0] if isinstance(body.inputs, str) else found)


async def answer(call: Call, body: AnswerBody) -> Response:
    """Answers of questions, with their characters in the context."""
    asked = body.inputs if isinstance(body.inputs, list) else [body.inputs]
    if not asked:
        as_list([])
    model = call.find("answer")
    given = body.parameters
    settings = AnswerSettings(
        top_k=given.top_k or 1,
        max_length=given.max_seq_len,
        stride=given.doc_stride,
        may_refuse=given.handle_impossible_answer,
        whole=given.align_to_words is not False,
    )
    if given.max_answer_len is not None:
        settings = replace(settings, max_answer_tokens=given.max_answer_len)
    if given.max_question_len is not None:
        settings = replace(settings, max_question_tokens=given.max_question_len)
    questions = [(one.question, one.context) for one in asked]
    answers = await call.compute(
        model,
        [text for pair in questions for text in pair],
        lambda: model.answerer.prepare(questions, settings),
        num_items=len(questions),
    )
    found = [_answers(one, settings) for one in answers]
    return json_response(found if isinstance(body.inputs, list) else found[0])


async def generate(call: Call, body: GenerateBody) -> Response:
    """Continuations of a prompt, on request as they are generated."""
    given = body.parameters
    prompts = as_list(body.inputs)
    if body.stream and given.num_return_sequences > 1:
        raise wrong_value("'stream' needs num_return_sequences = 1.", "stream")
    if given.details and not body.stream:
        raise wrong_value("'details' needs stream = true: its last event has them.", "parameters.details")
    model = call.find("generate")
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
            seed=time.time_ns() & 0x7FFFFFFF if given.seed is None else given.seed,
        )
    except InputError as error:
        raise wrong_value(str(error), "parameters") from None
    before = body.inputs if given.return_full_text else ""
    if body.stream:
        return await event_stream(call, model, prompts[0], settings, partial(_streamed, count(1), before))
    found = (await continuations(call, model, prompts, settings))[0]
    return json_response([{"generated_text": before + one.text} for one in found])


async def translate(call: Call, body: TranslateBody) -> Response:
    """Translations of texts."""
    texts = as_list(body.inputs)
    model = call.find("translate")
    given = body.parameters
    if given.src_lang is not None and given.tgt_lang is None:
        raise wrong_value("'src_lang' needs 'tgt_lang'.", "parameters.src_lang")
    search = given.generate_parameters or SearchParameters()
    options: dict[str, Any] = {
        "to": given.tgt_lang,
        "max_new_tokens": _one_of("max_new_tokens", given.max_new_tokens, "max_new_tokens", search.max_new_tokens),
        "beams": _one_of("beams", given.beams, "num_beams", search.num_beams),
        "length_penalty": search.length_penalty,
    }
    try:
        settings = TranslationSettings(**{name: one for name, one in options.items() if one is not None})
    except InputError as error:
        raise wrong_value(str(error), "parameters") from None
    await _count_sources(call, model, texts, given.tgt_lang, given.truncation != "do_not_truncate")

    def steps(emit: Callable[[Any], None]) -> Generator[None, None, list[str]]:
        found = []
        for text in texts:  # a text is a step
            found.append(model.translator.translate([text], settings)[0][0].text)
            yield
        return found

    found = await call.run(texts, steps, settings.beams)
    return json_response([{"translation_text": text, "summary_text": text} for text in found])


async def attention(call: Call, body: AttentionBody) -> Response:
    """Attention weights of a text."""
    texts = as_list(body.inputs)
    model = call.find("attention")
    longest = min(MOST_TOKENS, model.model.config.max_position_embeddings)
    length = await call.in_text_thread(model, texts, lambda: len(model.tokenizer.encode_batch(texts)[0]))
    call.exchange.num_truncated = int(length > longest)
    call.exchange.num_tokens = min(length, longest)

    def steps(emit: Callable[[Any], None]) -> Generator[None, None, dict[str, Any]]:
        found = attention_in(model.model, body.inputs, max_length=longest)
        yield
        return found.select(body.layers, body.heads).to_json()

    return json_response(await call.run(texts, steps))


async def by_task(call: Call, body: AnyRequest) -> Response:
    """Answers by what is asked, as far as it shows, and else by the kind of the model, in the form of the task."""
    model = call.find("tokenize")
    given = {"inputs": body.inputs, **body.model_dump(exclude_none=True)}  # a null is rejected below
    kind, answering = _route_of(model, given)
    if kind is VectorsBody:  # older clients send them as parameters
        given |= given.pop("parameters", {})
    call.name = model.name
    return await answering(call, _checked(kind, given))


async def root(call: Call, body: RootBody) -> Response:
    """A query with texts is reranking, everything else what the first model answers at /models/NAME."""
    given = body.model_dump(exclude_unset=True)
    if "query" in given:
        return await rerank(call, _checked(RerankBody, given))
    return await by_task(call, _checked(AnyRequest, given))


def _checked(kind: type[AnyBody], given: dict[str, Any]) -> AnyBody:
    """The body of a route that was found by what was sent. Raises Refused (422)."""
    try:
        return TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        raise wrong_value(validation_sentence(error), field_of(error) or None) from None


def _route_of(model: LoadedModel, given: dict[str, Any]) -> tuple[type[Body], Answering]:
    inputs, parameters = given["inputs"], given.get("parameters", {})
    if "candidate_labels" in parameters:
        return ZeroShotBody, _zero_shot
    if isinstance(inputs, dict) and "source_sentence" in inputs:
        return SimilarityBody, similarity
    names = set(VectorsBody.model_fields) - set(PipelineBody.model_fields) - {"inputs"}
    if names & set(given):
        return VectorsBody, embed
    if model.kind.can("fill-mask") and "parameters" not in given and not _has_mask(model, inputs):
        return VectorsBody, embed  # feature_extraction sends no parameters, and fill_mask does
    routes: dict[str, tuple[type[Body], Answering]] = {
        "classify": (ClassifyBody, _classified),
        "tag": (TagBody, tag),
        "answer": (AnswerBody, answer),
        "fill-mask": (FillMaskBody, fill_mask),
        "generate": (GenerateBody, generate),
        "translate": (TranslateBody, translate),
    }
    return next((route for ability, route in routes.items() if model.kind.can(ability)), (VectorsBody, embed))


def _has_mask(model: LoadedModel, inputs: Any) -> bool:
    mask = model.tokenizer.special_tokens.get("mask")
    texts = inputs if isinstance(inputs, list) else [inputs]
    return mask is not None and any(isinstance(text, str) and mask in text for text in texts)


async def _classified(call: Call, body: ClassifyBody) -> Response:
    texts = as_list(body.inputs)
    given = body.parameters
    model = call.find("predict")
    found = await predictions(call, model, list(texts), given.function_to_apply, True)
    return json_response([one[: given.top_k] for one in found])


async def _zero_shot(call: Call, body: ZeroShotBody) -> Response:
    texts = as_list(body.inputs)
    given = body.parameters
    labels, template = given.candidate_labels, given.hypothesis_template
    _, found = await zero_shot(call, list(texts), labels, template, True, bool(given.multi_label))
    return json_response(found[0] if isinstance(body.inputs, str) else found)


def _one_of(name: str, value: int | None, other: str, same: int | None) -> int | None:
    """A setting that can be given in two places. Raises Refused if both are."""
    if value is not None and same is not None:
        raise wrong_value(f"'{name}' and generate_parameters.{other} are the same: send one.", f"parameters.{name}")
    return same if value is None else value


async def _count_sources(call: Call, model: LoadedModel, texts: list[str], to: str | None, truncate: bool) -> None:
    """Counts the tokens and the truncated texts. Raises Refused (413) for one that may not be truncated."""
    translator = model.translator

    def run() -> list[int]:
        return [len(one) for one in translator.tokenizer.encode_batch([translator.source_of(one, to) for one in texts])]

    lengths = await call.in_text_thread(model, texts, run)
    call.exchange.num_tokens += sum(min(length, translator.max_length) for length in lengths)
    num_cut = sum(length > translator.max_length for length in lengths)
    call.exchange.num_truncated += num_cut
    if num_cut and not truncate:
        raise too_large(
            f"{num_cut} of the texts have more tokens than {model.name} reads ({translator.max_length:,}), and "
            "'truncation' is do_not_truncate: send shorter ones."
        )


def _answers(found: Answer, settings: AnswerSettings) -> Any:
    """The best answer, or the `top_k` best as a list. No answer is an empty one at 0, as in pipelines."""
    best = {name: found.answer[name] for name in ("answer", "score", "start", "end")}
    none = {"answer": "", "score": found.answer["no_answer_score"], "start": 0, "end": 0}
    is_none = best["start"] is None
    if settings.top_k == 1:
        return none if is_none else best
    if not settings.may_refuse:
        return found.candidates
    place = 0 if is_none else 1 + sum(one["score"] >= none["score"] for one in found.candidates[1:])
    return [*found.candidates[:place], none, *found.candidates[place:]][: settings.top_k]


def _rules(given: GenerateParameters) -> Rules:
    penalty = given.repetition_penalty or 1.0
    drawing = [name for name in ("temperature", "top_k", "top_p") if getattr(given, name) is not None]
    if drawing and given.do_sample is False:
        raise wrong_value(f"'{drawing[0]}' needs do_sample = true, or no do_sample.", f"parameters.{drawing[0]}")
    if not drawing and not given.do_sample:
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
add(router, "POST", "/", root, RootBody, summary="By the kind of the first model")
