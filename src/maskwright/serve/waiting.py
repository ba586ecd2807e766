"""Waiting for a result, the deadline, the end of the connection, or that of the inference thread."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from ..core.errors import InputError, MaskwrightError
from .exchange import Exchange
from .refusals import Refused, retry_after, wrong_value
from .streams import Stream
from .worker import Computation, Worker

LOOK_SECONDS = 1.0  # between two looks at the worker


async def result_of(call: Computation | Stream, request: Request, exchange: Exchange) -> Any:
    """Returns the result. Raises Refused after the deadline or the end of the connection, and for a wrong request."""
    gone = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait({call.done, gone}, timeout=exchange.seconds_left, return_when=asyncio.FIRST_COMPLETED)
        if call.done.done():
            return checked(call)
        raise _left(exchange) if gone.done() else _expired()
    finally:
        gone.cancel()


def checked(call: Computation | Stream) -> Any:
    """Returns the result of a call that is done. Raises Refused for a wrong request."""
    try:
        return call.done.result()
    except (InputError, MaskwrightError) as error:
        raise wrong_value(str(error)) from None


async def next_event(stream: Stream, exchange: Exchange, gone: asyncio.Task[None] | None, worker: Worker) -> Any:
    """Returns the next event of a stream.

    gone: `disconnected` of its request, None if others watch the connection. Raises Refused as `result_of`, and if the
    inference thread does not answer.
    """
    getting = asyncio.ensure_future(stream.events.get())
    try:
        while not getting.done():
            left = exchange.seconds_left
            if left <= 0:
                raise _expired()
            waiting = {getting} if gone is None else {getting, gone}
            await asyncio.wait(waiting, timeout=min(left, LOOK_SECONDS), return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                break
            if gone is not None and gone.done():
                raise _left(exchange)
            if not worker.is_up:
                raise unanswered()
        return getting.result()
    finally:
        getting.cancel()


async def disconnected(request: Request) -> None:
    """Returns when the client closes the connection."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


def _left(exchange: Exchange) -> Refused:
    exchange.is_abandoned = True
    return Refused(499, "slow", "The connection was closed before the answer.")


def unanswered() -> Refused:
    """The inference thread has ended, or hangs."""
    return Refused(503, "not_ready", "The inference thread does not answer: restart the server.", retry_after(5))


def _expired() -> Refused:
    return Refused(504, "expired", "The deadline passed before the answer: allow more time, or send it again later.")
