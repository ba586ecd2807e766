"""The inference thread: computes packs of the batcher, and steps of streams in between, one at a time.

Nothing else computes, so a request never shares the cores with another one. Whatever reaches the event loop again goes
through `call_soon_threadsafe`, once for each pack.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.memory import return_free_memory
from ..core.progress import warn
from ..data.batch import Batch, order_by_length
from ..inference.prepared import Prepared
from ..tasks.examples import PACKS_PER_TRIM, Forward
from .batcher import Batcher, Pack, Ticket
from .streams import Stream

SLICE_SECONDS = 0.02  # for steps of streams between two packs
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
        budget: Tokens of a pack for a forward.
        on_pack: Called in the inference thread with the cost of each pack.
    """

    def __init__(self, budget: Callable[[Forward], int], on_pack: Callable[[Done], None] = lambda done: None) -> None:
        self.budget, self.on_pack = budget, on_pack
        self.batcher = Batcher()
        self._streams: deque[Stream] = deque()  # in the order of their turns
        self._num_rows = 0
        self._changed = threading.Condition()
        self._is_stopping = False
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="maskwright-inference", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Stops the thread after the current pack."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(seconds)

    @property
    def is_up(self) -> bool:
        """Whether the thread runs, and the current pack does not take too long."""
        since = self._busy_since
        return self._thread.is_alive() and (since is None or time.monotonic() - since < HUNG_SECONDS)

    def submit(self, ticket: Computation) -> None:
        """Adds a call to the queue."""
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
        """Texts that streams generate."""
        return self._num_rows

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
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
        tickets = {id(ticket): ticket for ticket, _ in pack.items}
        calls = [ticket for ticket in tickets.values() if isinstance(ticket, Computation)]
        for call in calls:
            if not call.queue_seconds:
                call.queue_seconds = start - call.since
        failed: dict[int, Exception] = {}
        outputs: Sequence[Tensor | None]
        try:
            outputs = run_pack(forward, pack.items)
        except Exception as error:
            outputs = self._apart(forward, pack, failed, error)
        seconds = time.monotonic() - start
        finished: list[tuple[Computation, Sequence[Tensor] | Exception]] = []
        for (ticket, index), output in zip(pack.items, outputs, strict=True):
            assert isinstance(ticket, Computation)
            ticket.outputs[index] = output
            ticket.num_missing -= 1
        for call in calls:
            call.inference_seconds += seconds
            if id(call) in failed:
                finished.append((call, failed[id(call)]))
            elif not call.num_missing:
                finished.append((call, [output for output in call.outputs if output is not None]))
        self.on_pack(Done(forward, pack.num_tokens, len(pack.items), seconds))
        for loop in {call.loop for call, _ in finished}:
            _in_loop(loop, _deliver, [one for one in finished if one[0].loop is loop])

    def _apart(
        self, forward: Forward, pack: Pack, failed: dict[int, Exception], error: Exception
    ) -> list[Tensor | None]:
        """Computes each request by itself, so that the one at fault fails alone."""
        found: list[Tensor | None] = []
        by_ticket: dict[int, list[tuple[Ticket, int]]] = {}
        for ticket, index in pack.items:
            by_ticket.setdefault(id(ticket), []).append((ticket, index))
        results: dict[tuple[int, int], Tensor] = {}
        for own in by_ticket.values():
            if len(by_ticket) == 1:
                failed[id(own[0][0])] = error
                continue
            try:
                for (ticket, index), output in zip(own, run_pack(forward, own), strict=True):
                    results[id(ticket), index] = output
            except Exception as again:
                failed[id(own[0][0])] = again
        for ticket, index in pack.items:
            found.append(results.get((id(ticket), index)))
        return found

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


def run_pack(forward: Forward, items: Sequence[tuple[Ticket, int]]) -> list[Tensor]:
    """Computes sequences of several requests in one pack, shortest first; returns their outputs in the order given."""
    sequences = [(ticket.prepared.examples, index) for ticket, index in items if isinstance(ticket, Computation)]
    lengths = [len(examples.input_ids[index]) for examples, index in sequences]
    order = order_by_length(lengths).tolist()
    types: list[Any] | None = None
    if any(examples.token_types is not None for examples, _ in sequences):
        types = [
            [0] * lengths[place] if sequences[place][0].token_types is None else _types(*sequences[place])
            for place in order
        ]
    batch = Batch.from_sequences([sequences[place][0].input_ids[sequences[place][1]] for place in order], types)
    found: list[Tensor | None] = [None] * len(items)
    with torch.inference_mode():
        for place, output in zip(order, forward(batch.to(forward.device)), strict=True):
            found[place] = output
    return [output for output in found if output is not None]


def _types(examples: Any, index: int) -> Any:
    return examples.token_types[index]


def _deliver(finished: Sequence[tuple[Computation, Sequence[Tensor] | Exception]]) -> None:
    """Sets the results, in the event loop."""
    for call, result in finished:
        if call.done.done():
            continue
        if isinstance(result, Exception):
            call.done.set_exception(result)
        else:
            call.done.set_result(result)


def _in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *values: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:
        warn("serve: the event loop closed before a result was delivered.")
