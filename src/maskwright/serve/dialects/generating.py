"""Generation as a stream: one step for each token, between packs and other streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse

from ...inference.generate import ROWS, Continuation, Generation
from ..models import ServedModel
from ..refusals import Refused
from .errors import error_body
from .routing import Call

Found = list[list[Continuation]]
Steps = Callable[[Callable[[Any], None]], Generator[None, None, Found]]


def generation_steps(model: ServedModel, prompts: list[str], settings: Generation) -> Steps:
    """Returns the steps of a stream. With one prompt and one result it emits its text, and at last the result."""
    is_single = len(prompts) == 1 and settings.num_results == 1 and settings.beams == 1

    def steps(emit: Callable[[Any], None]) -> Generator[None, None, Found]:
        found = yield from model.generator.generate_steps(prompts, settings, emit if is_single else None)
        emit(found)
        return found

    return steps


async def event_stream(
    call: Call,
    model: ServedModel,
    prompt: str,
    settings: Generation,
    describe: Callable[[str | Continuation], Any],
    last: bytes = b"",
) -> Response:
    """Returns server-sent events of one continuation: its text as it is generated, then the whole.

    describe: JSON of the event for new text, or for the whole; last: what follows the events. Errors before the first
    event are responses with their status, later ones the last event.
    """
    await count_tokens(call, model, [prompt])
    parts = call.service.stream(call.request, call.exchange, [prompt], generation_steps(model, [prompt], settings))
    first = await anext(parts)
    events = _events(call, first, parts, describe, last)
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(
    call: Call,
    first: Any,
    rest: AsyncGenerator[Any, None],
    describe: Callable[[str | Continuation], Any],
    last: bytes,
) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        try:
            yield _event(describe(_part(first)))
            async for part in rest:
                yield _event(describe(_part(part)))
            yield last
        except Refused as refused:
            call.exchange.reason = refused.reason
            yield _event(error_body(refused, call.request.url.path))


def _part(part: str | Found) -> str | Continuation:
    return part if isinstance(part, str) else part[0][0]


def _event(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


async def continuations(call: Call, model: ServedModel, prompts: list[str], settings: Generation) -> Found:
    """Continuations of prompts, with the prompts' tokens counted."""
    await count_tokens(call, model, prompts)
    steps = generation_steps(model, prompts, settings)
    num_rows = min(len(prompts) * settings.num_results, ROWS)
    return await call.service.run(call.request, call.exchange, prompts, steps, num_rows)


async def count_tokens(call: Call, model: ServedModel, prompts: list[str]) -> None:
    """Adds the tokens of prompts to those of the request, and those that do not fit to the truncated texts.

    Before the first step: afterwards, a full queue could reject what is computed already.
    """
    generator = model.generator
    lengths = await call.service.in_text_thread(
        call.exchange, model, prompts, lambda: [len(generator.ids_of(prompt)) for prompt in prompts]
    )
    longest = generator.context_length
    call.exchange.num_tokens += sum(min(length, longest) for length in lengths)
    call.exchange.num_truncated += sum(length > longest for length in lengths)
