"""Generation as a stream: one step for each token, between packs and other streams."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ...inference.generate import Continuation, Generation
from ..models import ServedModel
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


async def continuations(call: Call, model: ServedModel, prompts: list[str], settings: Generation) -> Found:
    """Continuations of prompts, with the prompts' tokens counted."""
    found = await call.service.run(call.request, call.exchange, prompts, generation_steps(model, prompts, settings))
    counted = await call.service.in_text_thread(
        call.exchange, model, prompts, lambda: sum(len(model.generator.ids_of(prompt)) for prompt in prompts)
    )
    call.exchange.num_tokens += counted
    return found
