"""Routes of Text Embeddings Inference: embeddings, classification, reranking, tokens."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response
from torch import Tensor

from ... import __version__
from ...core.errors import InputError, ModelFolderError
from ...http.model_registry import LoadedModel
from ...inference.cluster import unit_vectors
from ...inference.ready import is_int8
from ...inference.zero_shot import TEMPLATE
from ...models.model import ROLES
from ...tasks.classification import Classification
from ...tasks.examples import rows_of
from ...text.readers.inputs import Text as TextOrPair
from ..request_context import Refused, too_large, wrong_value
from ..service import TEXT_THREADS
from .routing import Body, Call, Text, Texts, Unsupported, add, as_list, json_response, optional

# -- Request bodies of Text Embeddings Inference ---------------------------------------------------------------------


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


class TextsBody(Body):
    """inputs: a text or a list."""

    inputs: Texts
    truncate: Truncate = True
    truncation_direction: Direction = "right"
    prompt_name: PromptName = None


class EmbedBody(TextsBody):
    """inputs: a text or a list."""

    normalize: bool = Field(default=True, description="To length 1.")
    dimensions: Dimensions = None


class PredictBody(Body):
    """inputs: a text, a pair of two texts, or a list of lists of one or two texts."""

    inputs: Text | list[Text] | list[list[Text]]
    raw_scores: RawScores = False
    truncate: Truncate = True
    truncation_direction: Direction = "right"
    labels: list[Text] | None = optional("Classes without training; not TEI's.", min_length=2, max_length=100)
    template: str | None = optional(f"Sentence with {{}} for a label; {TEMPLATE}", max_length=1000)


class RerankBody(Body):
    """query: what the texts are compared with."""

    query: Text
    texts: list[Text]
    raw_scores: RawScores = False
    return_text: bool = Field(default=False, description="Whether the result has the texts.")
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
    add_special_tokens: bool = Field(default=True, description="Whether the special tokens are added.")
    prompt_name: PromptName = None


class DecodeBody(Body):
    """ids: token ids of a text, or of several."""

    ids: (
        Annotated[list[Id], Field(max_length=100_000)]
        | Annotated[list[Annotated[list[Id], Field(max_length=100_000)]], Field(max_length=1024)]
    )
    skip_special_tokens: bool = Field(default=True, description="Whether special tokens are left out.")


router = APIRouter(tags=["Text Embeddings Inference"])

PAIRS_PER_TEXT = 4  # pairs of a text and a label in a request, for each text that it may have


def prompt_of(model: LoadedModel, name: str | None) -> str | None:
    """The prompt of a name, None for None. Raises Refused (422) for a name that the folder does not have."""
    if name is None:
        return None
    if name not in model.prompts:
        known = ", ".join(model.prompts) or "none"
        raise wrong_value(f"'prompt_name' must be a prompt of {model.name}; it has: {known}.", "prompt_name")
    return model.prompts[name]


async def vectors_of(
    call: Call,
    model: LoadedModel,
    texts: list[str],
    normalize: bool | None,
    *,
    truncate: bool = True,
    dimensions: int | None = None,
    prompt_name: str | None = None,
) -> np.ndarray:
    """Embeddings of texts: float32 [texts, size or dimensions]. normalize: None for what the folder declares."""
    embedder = model.encoder(normalize=normalize)
    embedder = embedder.for_role(prompt_name) if prompt_name in ROLES else embedder
    if dimensions is not None and dimensions > embedder.size:
        raise wrong_value(f"'dimensions' is {dimensions:,}; {model.name} has {embedder.size:,}.", "dimensions")
    prompt = prompt_of(model, prompt_name)
    found: np.ndarray = await call.compute(model, texts, lambda: embedder.prepare(texts, prompt), truncate=truncate)
    if dimensions is None or dimensions == embedder.size:
        return found
    cut = np.ascontiguousarray(found[:, :dimensions])
    return unit_vectors(cut) if embedder.normalize else cut


async def embed(call: Call, body: EmbedBody) -> Response:
    """Embeddings of texts."""
    texts, model = as_list(body.inputs), call.find("embed")
    options = body.model_dump(include={"truncate", "dimensions", "prompt_name"})
    return json_response(await vectors_of(call, model, texts, body.normalize, **options))


async def embed_sparse(call: Call, body: TextsBody) -> Response:
    """Sparse embeddings of texts: the weights that are not zero, by token id."""
    texts = as_list(body.inputs)
    model = call.find("embed-sparse")
    prompt = prompt_of(model, body.prompt_name)
    found = await call.compute(
        model, texts, lambda: model.sparse_encoder.prepare(texts, prompt), truncate=body.truncate
    )
    rows = [zip(row.indices.tolist(), row.data.tolist(), strict=True) for row in found]
    return json_response([[{"index": index, "value": value} for index, value in row] for row in rows])


async def embed_all(call: Call, body: TextsBody) -> Response:
    """Embeddings of all tokens of texts."""
    model = call.find("embed")
    texts = [(prompt_of(model, body.prompt_name) or "") + text for text in as_list(body.inputs)]
    found = await call.compute(model, texts, lambda: model.encoder().prepare_tokens(texts), truncate=body.truncate)
    return json_response([np.ascontiguousarray(one.vectors) for one in found])


async def predict(call: Call, body: PredictBody) -> Response:
    """Class scores of texts or pairs, best first."""
    inputs, is_batch = _sequences(body.inputs)
    if body.labels is not None:
        if body.raw_scores:
            raise wrong_value("'raw_scores' is for the classes of a model, not for 'labels'.", "raw_scores")
        model, answers = await zero_shot(call, inputs, body.labels, body.template or TEMPLATE, body.truncate)
    else:
        if body.template is not None:
            raise wrong_value("'template' needs 'labels'.", "template")
        model = call.find("predict")
        answers = await predictions(call, model, inputs, "none" if body.raw_scores else None, body.truncate)
    return json_response(answers if is_batch else answers[0])


async def logits_of(call: Call, model: LoadedModel, rows: list[TextOrPair], truncate: bool) -> Tensor:
    """Logits of texts or pairs: float32 [rows, labels]."""
    logits: Tensor = await call.compute(
        model, flat(rows), lambda: model.predictor.prepare_logits(rows), truncate=truncate, num_items=len(rows)
    )
    return logits


async def predictions(
    call: Call, model: LoadedModel, inputs: list[TextOrPair], function: str | None, truncate: bool
) -> list[list[dict[str, Any]]]:
    """Scores of all classes of each text or pair, best first.

    function: from outputs to scores: "softmax", "sigmoid" or "none"; None for that of the model.
    """
    if function is not None:
        if not model.kind.can("text-logits") or (function == "softmax" and not model.kind.can("classes")):
            raise wrong_value(
                f"'{function}' cannot be applied to {model.name}: it is {model.kind.description}.",
                "parameters.function_to_apply",
            )
        logits = (await logits_of(call, model, inputs, truncate)).double()
        if function != "none":
            temperature = model.predictor.task.temperature
            logits = logits / (1.0 if temperature is None else temperature.value)
            logits = logits.softmax(dim=-1) if function == "softmax" else logits.sigmoid()
        labels = list(model.model.labels) if model.kind.can("classes") else [""]
        return [_ranked(dict(zip(labels, row, strict=True))) for row in logits.tolist()]
    answers = await call.compute(
        model, flat(inputs), lambda: model.predictor.prepare(rows_of(inputs)), truncate=truncate, num_items=len(inputs)
    )
    return [scored(answer) for answer in answers]


async def zero_shot(
    call: Call, inputs: list[TextOrPair], labels: list[str], template: str, truncate: bool, multi_label: bool = False
) -> tuple[LoadedModel, list[list[dict[str, Any]]]]:
    """Scores of labels that were never trained, best first."""
    texts = [one for one in inputs if isinstance(one, str)]
    if len(texts) < len(inputs):
        raise wrong_value("'labels' classify single texts, not pairs.", "labels")
    model = call.find("zero-shot")
    most = call.service.settings.max_texts * PAIRS_PER_TEXT
    if model.has_entailment and len(texts) * len(labels) > most:
        raise too_large(
            f"{len(texts):,} texts with {len(labels):,} labels are {len(texts) * len(labels):,} pairs, and at most "
            f"{most:,} are allowed: send fewer texts at a time."
        )
    answers = await call.compute(
        model,
        [text for text in texts for _ in labels] if model.has_entailment else [*texts, *labels],
        lambda: model.zero_shot(labels, template, multi_label).prepare(texts),
        truncate=truncate,
        num_items=len(texts),
    )
    return model, [scored(answer) for answer in answers]


def scored(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """A prediction of the library as [{"score", "label"}], best first; a number has an empty label."""
    by_label = answer.get("probabilities", answer.get("similarities"))
    if by_label is not None:
        return _ranked(by_label)
    label = {True: "anomaly", False: "normal"}.get(answer.get("is_rare"), "")  # type: ignore[arg-type]  # None too
    return [{"score": answer["score"], "label": label}]


def flat(inputs: list[TextOrPair]) -> list[str]:
    """All texts of texts and pairs."""
    return [text for one in inputs for text in ([one] if isinstance(one, str) else one)]


def _ranked(by_label: dict[str, float]) -> list[dict[str, Any]]:
    ranked = sorted(by_label.items(), key=lambda one: -one[1])
    return [{"score": score, "label": label} for label, score in ranked]


def _sequences(inputs: str | list[str] | list[list[str]]) -> tuple[list[TextOrPair], bool]:
    """Texts and pairs of `inputs`, and whether they are a batch. Raises Refused for anything else."""
    if isinstance(inputs, str):
        return [as_list(inputs)[0]], False
    if not inputs:
        as_list([])
    if isinstance(inputs[0], str):
        return [_sequence(inputs)], False
    return [_sequence(one) for one in inputs], True


def _sequence(texts: list[str]) -> TextOrPair:
    if len(texts) == 1:
        return texts[0]
    if len(texts) == 2:
        return texts[0], texts[1]
    raise wrong_value(
        "'inputs' has a list of neither one text nor two: write a batch as [[text], [text, pair]].", "inputs"
    )


async def rerank(call: Call, body: RerankBody) -> Response:
    """Texts by their relevance to a query, best first."""
    scores = await relevance(call, body.query, as_list(body.texts, "texts"), body.truncate, body.raw_scores)
    found = [
        {"index": index, "score": score, **({"text": body.texts[index]} if body.return_text else {})}
        for index, score in scores
    ]
    return json_response(found)


async def relevance(
    call: Call, query: str, texts: list[str], truncate: bool, raw_scores: bool = False
) -> list[tuple[int, float]]:
    """Index and score of each text, best first: of a model that reads pairs, else the cosine similarity or MaxSim.

    The score of a classifier is the probability of its class of relevant pairs, that of a cross-encoder with one
    output the sigmoid; raw_scores: the log odds. A regression model that was trained here gives its number.
    """
    as_list(query, "query")
    model = call.find("rerank")
    if model.kind.can("text-logits"):
        pairs: list[TextOrPair] = [(query, text) for text in texts]
        task = model.predictor.task
        ranker = task if isinstance(task, Classification) else None
        try:
            is_log_odds = model.output_is_log_odds if ranker is None else ranker.relevant_number >= 0
        except (InputError, ModelFolderError) as error:
            raise Refused(424, "head", f"{model.name}: {error}") from None
        logits = await logits_of(call, model, pairs, truncate)
        order = logits[:, 0].double() if ranker is None else ranker.relevance(logits)
        shown = order.sigmoid() if is_log_odds and not raw_scores else order
        ranked = order.argsort(descending=True, stable=True).tolist()  # probabilities can round to the same number
        return [(index, float(shown[index])) for index in ranked]
    late = model.late_encoder if model.vectors == "late" else None
    encoder: Any = late or model.encoder(normalize=True)
    if late is None and not encoder.routes and encoder.declared.include_prompt:  # one network: one pack
        before, after = (encoder.declared.prompt_of(role) for role in ROLES)
        every = [before + query, *(after + text for text in texts)]
        vectors = await call.compute(model, every, partial(encoder.prepare, every, ""), truncate=truncate)
        asked, found = vectors[:1], vectors[1:]
    else:
        asked, found = [
            await call.compute(model, own, partial(encoder.for_role(role).prepare, own), truncate=truncate)
            for role, own in (("query", [query]), ("document", texts))
        ]
    scores = asked @ found.T if late is None else late.compare(asked, found)
    return sorted(enumerate(scores[0].tolist()), key=lambda one: -one[1])


async def similarity(call: Call, body: SimilarityBody) -> Response:
    """Cosine similarity of a text and others."""
    texts = as_list(body.inputs.sentences, "inputs.sentences")
    model = call.find("embed")
    given = body.parameters or SimilarityParameters()
    every = [body.inputs.source_sentence, *texts]
    vectors = await vectors_of(call, model, every, True, truncate=given.truncate, prompt_name=given.prompt_name)
    return json_response((vectors[1:] @ vectors[0]).tolist())


async def tokenize(call: Call, body: TokenizeBody) -> Response:
    """Tokens of texts, with their characters; the text of a token is that of the input, as TEI gives it."""
    model = call.find("tokenize")
    texts = [(prompt_of(model, body.prompt_name) or "") + text for text in as_list(body.inputs)]

    def run() -> list[list[dict[str, Any]]]:
        encodings = model.tokenizer.encode_batch(texts, add_special_tokens=body.add_special_tokens)
        return [
            [
                {
                    "id": id,
                    "text": token if special else text[start:stop],
                    "special": bool(special),
                    "start": None if special else start,
                    "stop": None if special else stop,
                }
                for id, token, special, (start, stop) in zip(
                    one.ids, one.tokens, one.special_tokens_mask, one.offsets, strict=True
                )
            ]
            for text, one in zip(texts, encodings, strict=True)
        ]

    return json_response(await call.in_text_thread(model, texts, run))


async def decode(call: Call, body: DecodeBody) -> Response:
    """Texts of token ids."""
    if not body.ids:
        raise Refused(400, "value", "'ids' is empty: pass a list of token ids.", param="ids")
    model = call.find("tokenize")
    rows = [body.ids] if isinstance(body.ids[0], int) else body.ids
    most = model.tokenizer.vocab_size
    if any(not 0 <= id < most for row in rows for id in row):
        raise wrong_value(f"'ids' has an id that {model.name} does not have: they are 0 to {most - 1:,}.", "ids")

    def run() -> list[str]:
        return [model.tokenizer.decode(row, skip_special_tokens=body.skip_special_tokens) for row in rows]

    return json_response(await call.in_text_thread(model, [""] * len(rows), run))


async def info(call: Call) -> Response:
    """What is served, and the limits."""
    service = call.service
    service.check_ready()
    settings = service.settings
    models = [about(model) for model in service.models]
    first = models[0] if call.name is None else next((one for one in models if one["model_id"] == call.name), None)
    if first is None:
        raise Refused(404, "not_found", "There is no model of this name here.", param="model")
    limits = {
        "max_client_batch_size": settings.max_texts,
        "max_batch_tokens": service.speed_of(call.name or models[0]["model_id"]).batch_tokens,
        "max_concurrent_requests": settings.max_queued_requests,
        "max_body_bytes": settings.max_body_bytes,
        "max_queue_seconds": settings.max_queue_seconds,
        "auto_truncate": True,
        "tokenization_workers": TEXT_THREADS,
        "version": __version__,
    }
    return json_response({**first, **limits, "models": models})


def about(model: LoadedModel) -> dict[str, Any]:
    """Facts of one model for /info."""
    dtype = str(model.model.compute_dtype).removeprefix("torch.")
    labels = list(model.model.labels)
    if model.kind.can("text-logits"):
        kind: dict[str, Any] = {"classifier": {"id2label": {str(index): one for index, one in enumerate(labels)}}}
    else:
        other = "none" if model.model.has_decoder else {"sparse": "splade", "late": "none"}.get(model.vectors)
        pooling = other or model.encoder().pooling
        kind = {"embedding": {"pooling": pooling}}
    return {
        "model_id": model.name,
        "model_sha": model.digest,
        "model_dtype": "int8" if is_int8(model.model) else dtype,
        "model_type": kind,
        "max_input_length": model.max_length,
        "task": model.kind.name or "encoder",
    }


add(router, "POST", "/embed", embed, EmbedBody, summary="Embeddings of texts", named=True)
add(router, "POST", "/embed_sparse", embed_sparse, TextsBody, summary="Sparse embeddings of texts", named=True)
add(router, "POST", "/embed_all", embed_all, TextsBody, summary="Embeddings of all tokens", named=True)
add(router, "POST", "/predict", predict, PredictBody, summary="Class scores of texts or pairs", named=True)
add(router, "POST", "/rerank", rerank, RerankBody, summary="Texts by relevance to a query", named=True)
add(router, "POST", "/similarity", similarity, SimilarityBody, summary="Cosine similarities of texts", named=True)
add(router, "POST", "/tokenize", tokenize, TokenizeBody, summary="Tokens of texts", named=True)
add(router, "POST", "/decode", decode, DecodeBody, summary="Texts of token ids", named=True)
add(router, "GET", "/info", info, summary="What is served, and the limits", named=True)
