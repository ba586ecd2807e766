"""The inference thread: loads the models, then computes packs of the batcher and steps of streams, one at a time.

Nothing else computes, so a request never shares the cores with another one. Whatever reaches the event loop again goes
through `call_soon_threadsafe`, once for each pack.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from traceback import clear_frames
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.memory import return_free_memory
from ..core.progress import warn
from ..data.batch import Batch, order_by_length
from ..inference.prepared import Prepared
from ..models.model import Model
from ..tasks.examples import PACKS_PER_TRIM, Forward, each
from .batcher import Batcher, Pack, Ticket

# -- Work in many steps, such as generation: a generator that the inference thread advances ---------------------------


END = object()  # in the queue after the last event


class Stream:
    """A generator that runs in the inference thread, with its events and its result in the event loop.

    Args:
        steps: Yields after each step, and returns the result. Created in the inference thread on the first step.
        loop: Event loop of the request.
        num_rows: Texts that it generates at the same time.

    Attributes:
        events: What `emit` was given, then END.
        done: The result.
        is_gone: Set when nobody waits for the result: the next step closes the generator.
    """

    def __init__(
        self,
        steps: Callable[[Callable[[Any], None]], Generator[None, None, Any]],
        loop: asyncio.AbstractEventLoop,
        num_rows: int = 1,
    ) -> None:
        self.loop, self.num_rows = loop, num_rows
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.done: asyncio.Future[Any] = loop.create_future()
        self.is_gone = self.is_finished = False
        self.since = time.monotonic()
        self.queue_seconds = self.inference_seconds = 0.0
        self._make, self._steps = steps, None  # type: Any, Any

    def step(self) -> bool:
        """Runs one step; returns whether there are more. Called in the inference thread."""
        if self.is_finished:
            return False
        if self.is_gone:
            self._close()
            return False
        start = time.monotonic()
        if self._steps is None:
            self.queue_seconds = start - self.since
            self._steps = self._make(self._emit)
        try:
            with torch.inference_mode():
                next(self._steps)
        except StopIteration as end:
            self._finish(self._set, end.value)
        except Exception as error:
            self._finish(self._fail, error)
        self.inference_seconds += time.monotonic() - start
        return not self.is_finished

    def _close(self) -> None:
        if self._steps is not None:
            self._steps.close()
        self._finish(self._set, None)

    def _emit(self, event: Any) -> None:
        self._call(self.events.put_nowait, event)

    def _finish(self, function: Callable[[Any], None], value: Any) -> None:
        self.is_finished = True
        self._call(function, value)

    def _set(self, value: Any) -> None:
        if not self.done.done():
            self.done.set_result(value)
        self.events.put_nowait(END)

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # it may be read from the events only
        self.events.put_nowait(END)

    def _call(self, function: Callable[..., None], value: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(function, value)
        except RuntimeError:  # the event loop has closed: nobody waits
            self.is_gone = True


# -- The inference thread ---------------------------------------------------------------------------------------------


SLICE_SECONDS = 0.02  # for steps of streams between two packs
PER_TURN = 8  # results that the event loop delivers at once
HUNG_SECONDS = 60.0  # a pack or a step that takes longer counts as a hung worker


class Computation(Ticket):
    """A prepared call in the queue, with the future of its outputs.

    Attributes:
        done: Outputs of `prepared.forward` for each sequence; set in the event loop.
        queue_seconds: Time until the first pack.
        inference_seconds: Time in packs, which others may have shared.
    """

    def __init__(
        self, prepared: Prepared[Any], loop: asyncio.AbstractEventLoop, client: str = "", is_bulk: bool = False
    ) -> None:
        super().__init__(prepared.forward, [len(ids) for ids in prepared.examples.input_ids], client, is_bulk)
        self.prepared, self.loop = prepared, loop
        self.done: asyncio.Future[Sequence[Tensor]] = loop.create_future()
        self.outputs: list[Tensor | None] = [None] * len(self.lengths)
        self.num_missing = len(self.lengths)
        self.since = time.monotonic()
        self.queue_seconds = self.inference_seconds = 0.0


@dataclass(frozen=True)
class Done:
    """What a pack cost. num_tokens, num_sequences: of the pack; seconds: to compute it; forward: what was computed."""

    forward: Forward
    num_tokens: int
    num_sequences: int
    seconds: float


class Worker:
    """One inference thread with its queue.

    Args:
        load: Loads the models, first and in the same thread: as soon as two threads of a process have run operators on
            several cores, OpenMP lets the threads of both sleep after each operator, and a short text takes half as
            long again.
        budget: Tokens of a pack for a forward.
        on_pack: Called in the inference thread with the cost of each pack.

    Attributes:
        loaded: Done when the models are loaded, or with what loading raised.
    """

    def __init__(
        self,
        load: Callable[[], None],
        budget: Callable[[Forward], int],
        on_pack: Callable[[Done], None] = lambda done: None,
    ) -> None:
        self.load, self.budget, self.on_pack = load, budget, on_pack
        self.loaded: Future[None] = Future()
        self.batcher = Batcher()
        self._streams: deque[Stream] = deque()  # in the order of their turns
        self._num_rows = 0
        self._changed = threading.Condition()
        self._is_stopping = False
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="maskwright-inference", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(seconds if self.loaded.done() else None)  # a thread that loads cannot be left at exit

    @property
    def is_up(self) -> bool:
        """Whether the thread runs, and the current pack does not take too long."""
        since = self._busy_since
        return self._thread.is_alive() and (since is None or time.monotonic() - since < HUNG_SECONDS)

    def submit(self, ticket: Computation) -> None:
        with self._changed:
            self.batcher.add(ticket)
            self._changed.notify()

    def submit_stream(self, stream: Stream) -> None:
        """Adds a stream, which computes a step whenever it is its turn."""
        with self._changed:
            self._streams.append(stream)
            self._num_rows += stream.num_rows
            self._changed.notify()

    def drop(self, ticket: Computation) -> None:
        """Removes a call that nobody waits for."""
        with self._changed:
            self.batcher.drop(ticket)

    @property
    def num_rows(self) -> int:
        return self._num_rows

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self.load()
        except Exception as error:
            self.loaded.set_exception(error)
            return
        self.loaded.set_result(None)
        packs = 0
        while True:
            with self._changed:
                while not self._is_stopping and not self.batcher.num_tokens and not self._streams:
                    self._changed.wait()
                if self._is_stopping:
                    return
                pack = self.batcher.take(self.budget)
            self._busy_since = time.monotonic()
            if pack is not None:
                self._compute(pack)
                packs += 1
                if packs % PACKS_PER_TRIM == 0:
                    return_free_memory()
            self._step()
            self._busy_since = None

    def _compute(self, pack: Pack) -> None:
        forward = pack.key
        assert isinstance(forward, Forward)
        start = time.monotonic()
        calls = {id(ticket): ticket for ticket, _ in pack.items if isinstance(ticket, Computation)}
        for call in calls.values():
            if not call.queue_seconds:
                call.queue_seconds = start - call.since
        failed: dict[int, Exception] = {}
        try:
            _keep_outputs(pack.items, run_pack(forward, pack.items))
        except Exception as error:
            clear_frames(error.__traceback__)  # of tensors, which would stay until garbage is collected
            for number in calls:  # each request by itself, so that the one at fault fails alone
                own = [one for one in pack.items if id(one[0]) == number]
                try:
                    if len(calls) == 1:
                        raise error
                    _keep_outputs(own, run_pack(forward, own))
                except Exception as again:
                    clear_frames(again.__traceback__)
                    failed[number] = again
        seconds = time.monotonic() - start
        finished: list[tuple[Computation, Sequence[Tensor] | Exception]] = []
        for number, call in calls.items():
            call.inference_seconds += seconds
            if number in failed:
                finished.append((call, failed[number]))
            elif not call.num_missing:
                finished.append((call, [output for output in call.outputs if output is not None]))
        self.on_pack(Done(forward, pack.num_tokens, len(pack.items), seconds))
        for loop in {call.loop for call, _ in finished}:
            _in_loop(loop, _deliver, [one for one in finished if one[0].loop is loop])
        failed.clear()  # an exception and the frame of this function, which its traceback has, would keep each other
        finished.clear()

    def _step(self) -> None:
        """Runs steps of the streams in turn, until the time slice is over, or each had a turn and a pack waits.

        The next slice resumes the stream whose turn it is, so each stream gets one step between two steps of another.
        """
        end = time.monotonic() + SLICE_SECONDS
        left = len(self._streams)
        while self._streams and (now := time.monotonic()) < end:
            self._busy_since = now
            stream = self._streams.popleft()
            if stream.step():
                self._streams.append(stream)
            else:
                with self._changed:
                    self._num_rows -= stream.num_rows
            left -= 1
            if left <= 0:
                with self._changed:
                    if self.batcher.num_tokens:
                        return
                left = len(self._streams)


def _keep_outputs(items: Sequence[tuple[Ticket, int]], outputs: Sequence[Tensor]) -> None:
    for (ticket, index), output in zip(items, outputs, strict=True):
        assert isinstance(ticket, Computation)
        ticket.outputs[index] = output
        ticket.num_missing -= 1


def run_pack(forward: Forward, items: Sequence[tuple[Ticket, int]]) -> list[Tensor]:
    """Computes sequences of several requests in one pack, shortest first; returns their outputs in the order given."""
    sequences = [(ticket.prepared.examples, index) for ticket, index in items if isinstance(ticket, Computation)]
    lengths = [len(examples.input_ids[index]) for examples, index in sequences]
    order = order_by_length(lengths).tolist()
    types: list[Any] | None = None
    if any(examples.token_types is not None for examples, _ in sequences):
        types = [
            [0] * lengths[place] if examples.token_types is None else examples.token_types[index]
            for place in order
            for examples, index in (sequences[place],)
        ]
    batch = Batch.from_sequences([sequences[place][0].input_ids[sequences[place][1]] for place in order], types)
    found: list[Tensor | None] = [None] * len(items)
    with torch.inference_mode():
        for place, output in zip(order, forward(batch.to(forward.device)), strict=True):
            found[place] = output
    return [output for output in found if output is not None]


def _deliver(finished: Sequence[tuple[Computation, Sequence[Tensor] | Exception]]) -> None:
    """Sets the results of a few calls, then lets the event loop do other things: each result is a response to write."""
    for call, result in finished[:PER_TURN]:
        if call.done.done():
            continue
        if isinstance(result, Exception):
            call.done.set_exception(result)
        else:
            call.done.set_result(result)
    if rest := finished[PER_TURN:]:
        asyncio.get_running_loop().call_soon(_deliver, rest)


def _in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *values: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:
        warn("serve: the event loop closed before a result was delivered.")


# -- The speed of a model, measured before the server is ready, and the pack size from which it no longer gains -------


SMALLEST, LARGEST_CPU, LARGEST_GPU = 256, 2048, 65536
GAIN = 1.05  # a larger pack must be this much faster per token
LONGEST_SECONDS = 0.15  # a new request may have to wait for a whole pack
SECONDS = 1.5  # for one model
TEXT_TOKENS = 32


@dataclass(frozen=True)
class Speed:
    """Measured speed. tokens_per_second: in packs of batch_tokens tokens."""

    tokens_per_second: float
    batch_tokens: int


@dataclass(frozen=True)
class OnePass(Forward):
    """A pass of the model, complete when the first of its results is on the CPU."""

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        """The first result of the pack."""
        return each(self.model.one_pass(batch)[:1].float())


def measure(model: Model, batch_tokens: int | None = None) -> Speed:
    """Runs packs of growing size; batch_tokens: measure this size only."""
    forward = OnePass(model)
    length = min(TEXT_TOKENS, model.config.max_position_embeddings)
    start = time.monotonic()
    _seconds(forward, length, length)  # prepares the weights
    if batch_tokens is not None:
        return Speed(batch_tokens / _seconds(forward, batch_tokens, length), batch_tokens)
    largest = LARGEST_CPU if forward.device.type == "cpu" else LARGEST_GPU
    best = Speed(SMALLEST / _seconds(forward, SMALLEST, length), SMALLEST)
    while best.batch_tokens < largest and time.monotonic() - start < SECONDS:
        size = 2 * best.batch_tokens
        if size > LONGEST_SECONDS * best.tokens_per_second:
            break
        speed = size / _seconds(forward, size, length)
        if speed < GAIN * best.tokens_per_second:
            break
        best = Speed(speed, size)
    return best


def _seconds(forward: Forward, tokens: int, length: int) -> float:
    """Time of one pack, the better of two, to be less sensitive to what else the machine does."""
    vocab = forward.model.config.vocab_size
    ids = np.random.default_rng(0).integers(0, vocab, size=(max(tokens // length, 1), length))
    batch = Batch.from_sequences(list(ids)).to(forward.device)
    times = []
    with torch.inference_mode():
        for _ in range(2):
            start = time.monotonic()
            forward(batch)
            times.append(time.monotonic() - start)
    return max(min(times), 1e-6)
