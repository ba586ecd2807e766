"""OpenAI's routes: embeddings, models, completions with server-sent events; and /v1/rerank as others offer it."""

from __future__ import annotations

import base64
import time
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from ...inference.generate import Continuation, Generation
from ...models.decoding.rules import COLDEST, Rules
from ..request_context import wrong_value
from .routing import Body, Call, Text, Texts, add, as_list, continuations, event_stream, json_response
from .tei import relevance, vectors_of

router = APIRouter(tags=["OpenAI"])

STARTED = int(time.time())
DONE = b"data: [DONE]\n\n"
REASONS = {"end": "stop", "stop": "stop", "length": "length"}


class EmbeddingsBody(Body):
    """input: a text or a list, no token ids; dimensions: only the first ones, scaled to length 1."""

    input: Texts | list[int] | list[list[int]]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = None
    user: str | None = None


class CompletionBody(Body):
    """prompt: a text or a list; temperature 0 is greedy."""

    model: str | None = None
    prompt: Texts
    max_tokens: int = Field(default=16, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    n: int = Field(default=1, ge=1, le=16)
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    echo: Literal[False] = False
    user: str | None = None
    # What clients send unasked, with values that change nothing.
    best_of: Literal[1] | None = None
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    logprobs: None = None
    suffix: None = None


class RerankBody(Body):
    """documents: the texts that are compared with the query; top_n: how many of them are returned."""

    model: str | None = None
    query: Text
    documents: list[Text]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool = False


async def embeddings(call: Call, body: EmbeddingsBody) -> Response:
    """Embeddings of length 1."""
    given: Any = body.input
    if isinstance(given, list) and given and not isinstance(given[0], str):
        raise wrong_value(
            "'input' has token ids, of a vocabulary that this server cannot know: send texts. LangChain sends texts "
            "with check_embedding_ctx_length=False.",
            "input",
        )
    texts = as_list(given, "input")
    model = call.find("embed", body.model)
    vectors = await vectors_of(call, model, texts, True, dimensions=body.dimensions)
    is_base64 = body.encoding_format == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") if is_base64 else row,
        }
        for index, row in enumerate(np.ascontiguousarray(vectors))
    ]
    tokens = call.exchange.num_tokens
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "data": data, "model": model.name, "usage": usage})


async def models(call: Call) -> Response:
    """The served models."""
    call.service.check_ready()
    return json_response({"object": "list", "data": [_described(name) for name in call.service.models.names]})


async def model(call: Call) -> Response:
    """One served model."""
    call.service.check_ready()
    call.service.models.find("tokenize", call.name)
    return json_response(_described(str(call.name)))


async def completions(call: Call, body: CompletionBody) -> Response:
    """Continuations of prompts by a causal language model, on request as they are generated."""
    prompts = as_list(body.prompt, "prompt")
    model = call.find("generate", body.model)
    stops = () if body.stop is None else (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)
    is_greedy = body.temperature == 0
    most = call.service.settings.max_new_tokens
    if body.max_tokens > most:
        raise wrong_value(f"'max_tokens' is {body.max_tokens:,}; at most {most:,} are allowed.", "max_tokens")
    if is_greedy and body.n > 1:
        raise wrong_value("'n' is above 1, but with temperature 0 all results are equal.", "n")
    seed = time.time_ns() & 0x7FFFFFFF if body.seed is None else body.seed
    top_p = None if body.top_p == 1 or is_greedy else body.top_p
    rules = Rules(greedy=True) if is_greedy else Rules(temperature=max(body.temperature, COLDEST), top_p=top_p)
    settings = Generation(max_new_tokens=body.max_tokens, rules=rules, num_results=body.n, stop=stops, seed=seed)
    head = {
        "id": f"cmpl-{call.exchange.id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model.name,
    }
    if body.stream:
        if len(prompts) != 1 or body.n != 1:
            raise wrong_value("'stream' needs a single prompt and n = 1.", "stream")

        def describe(part: str | Continuation) -> dict[str, Any]:
            text, reason = (part, None) if isinstance(part, str) else ("", REASONS[part.ended_by])
            return {**head, "choices": [{"index": 0, "text": text, "finish_reason": reason, "logprobs": None}]}

        return await event_stream(call, model, prompts[0], settings, describe, DONE)
    found = await continuations(call, model, prompts, settings)
    choices = [
        {"index": index, "text": one.text, "finish_reason": REASONS[one.ended_by], "logprobs": None}
        for index, one in enumerate(one for row in found for one in row)
    ]
    generated = sum(one.num_tokens for row in found for one in row)
    read = call.exchange.num_tokens
    usage = {"prompt_tokens": read, "completion_tokens": generated, "total_tokens": read + generated}
    return json_response({**head, "choices": choices, "usage": usage})


async def rerank(call: Call, body: RerankBody) -> Response:
    """Documents by their relevance to a query, best first."""
    call.name = body.model
    documents = as_list(body.documents, "documents")
    found = await relevance(call, body.query, documents, True)
    results = [
        {
            "index": index,
            "relevance_score": score,
            **({"document": {"text": documents[index]}} if body.return_documents else {}),
        }
        for index, score in found[: body.top_n]
    ]
    usage = {"total_tokens": call.exchange.num_tokens, "prompt_tokens": call.exchange.num_tokens}
    return json_response({"model": call.exchange.model, "results": results, "usage": usage})


def _described(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": STARTED, "owned_by": "maskwright"}


add(router, "POST", "/v1/embeddings", embeddings, EmbeddingsBody, summary="Embeddings")
add(router, "GET", "/v1/models", models, summary="Models")
add(router, "GET", "/v1/models/{name:path}", model, summary="A model")
add(router, "POST", "/v1/completions", completions, CompletionBody, summary="Continuations of prompts")
add(router, "POST", "/v1/rerank", rerank, RerankBody, summary="Documents by relevance to a query")
