"""The queue: which requests are let in, and which waiting sequences the next pack takes.

No threads and no clock, so its laws can be tested.

A pack holds sequences of one `Forward`; those with waiting sequences take turns. The order is by virtual start time
(start-time fair queueing, Goyal et al. 1996): first in first out for one client, shares of equal size between clients,
and none waits forever. Up to half of a pack goes first to sequences that are much shorter than the others, so a short
text waits for one pack however many long ones wait; sequences of similar lengths keep their order, which keeps the
longest waiting time low. Bulk sequences get a fifth of the tokens, and all that others leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Any

from .request_context import Refused, retry_after, too_large

# -- Admission: by count and by seconds of work at the measured speed, before tokenization ----------------------------


CHARACTERS_PER_TOKEN = 3.0  # fewer than in most languages: the estimate may be too high, not too low
CHARACTERS_PER_SECOND = 1e6  # of tokenization
SMALL_SHARE = 0.05  # of the queue; the rejection of a request up to this size means that the queue is full


@dataclass(frozen=True)
class Reservation:
    """A request that was let in and is not in the queue yet. seconds: estimated work."""

    seconds: float


class Admission:
    """Counts what waits.

    Args:
        most_requests: Maximum number of waiting requests.
        most_seconds: Maximum work that waits.
        queued: Waiting requests of the batcher, and seconds of their work.
    """

    def __init__(self, most_requests: int, most_seconds: float, queued: Callable[[], tuple[int, float]]) -> None:
        self.most_requests, self.most_seconds, self.queued = most_requests, most_seconds, queued
        self._places: set[int] = set()
        self._reserved = 0.0
        self._full_from = math.inf  # waiting seconds when a small request was rejected

    @property
    def waiting(self) -> tuple[int, float]:
        """Waiting requests, including those being tokenized, and seconds of their work."""
        requests, seconds = self.queued()
        return requests + len(self._places), seconds + self._reserved

    def check(self, timeout: float) -> None:
        """Raises Refused (429) if not even a small request is let in now; cheap, and needs nothing of its body.

        After a small request was rejected, the queue counts as full until some of what waited then has left it.
        timeout: Time until the deadline.
        """
        requests, ahead = self.waiting
        if requests >= self.most_requests:
            raise self._too_many(requests, ahead)
        if ahead < self._full_from:
            self._full_from = math.inf
        elif requests:
            raise self._too_much(ahead, 0.0)
        if ahead > timeout:
            raise _too_late(ahead, timeout)

    def enter(self, seconds: float, timeout: float) -> Reservation:
        """Lets a request in, or raises Refused: 413 if it could never fit, 429 if it does not fit now.

        seconds: Estimated work; timeout: time until its deadline.
        """
        if seconds > self.most_seconds:
            raise too_large(
                f"The request is about {seconds:.0f} seconds of work, and the queue holds {self.most_seconds:g}: send "
                "fewer or shorter texts at a time."
            )
        requests, ahead = self.waiting
        if requests >= self.most_requests:
            raise self._too_many(requests, ahead)
        if requests and ahead + seconds > self.most_seconds:
            if seconds <= SMALL_SHARE * self.most_seconds:
                self._full_from = ahead
            raise self._too_much(ahead, seconds)
        if ahead + seconds > timeout:
            raise _too_late(ahead + seconds, timeout)
        place = Reservation(seconds)
        self._places.add(id(place))
        self._reserved += seconds
        return place

    def leave(self, place: Reservation) -> None:
        """The request is in the queue now, where the batcher counts it, or was given up. Twice is as once."""
        if id(place) in self._places:
            self._places.discard(id(place))
            self._reserved = max(0.0, self._reserved - place.seconds) if self._places else 0.0

    def _too_many(self, requests: int, ahead: float) -> Refused:
        return Refused(
            429,
            "queue_full",
            f"{requests} requests are waiting, the most that this server allows: send it again later.",
            retry_after(ahead / max(requests, 1)),
        )

    def _too_much(self, ahead: float, seconds: float) -> Refused:
        return Refused(
            429,
            "queue_full",
            f"{ahead:.1f} seconds of work are waiting, and the queue holds {self.most_seconds:g}: send it again later.",
            retry_after(ahead + seconds - self.most_seconds),
        )


def _too_late(seconds: float, timeout: float) -> Refused:
    return Refused(
        429,
        "deadline",
        f"The answer would come after the deadline of {timeout:g} seconds: send it again later, or allow more time.",
        retry_after(seconds - timeout),
    )


def tokens_of_characters(characters: int, texts: int, longest: int | None) -> int:
    """Returns an estimate of the tokens of texts of at most `longest` tokens each, None if long ones are split."""
    tokens = int(characters / CHARACTERS_PER_TOKEN) + 2 * texts
    return tokens if longest is None else min(tokens, longest * texts)


# -- The batcher ------------------------------------------------------------------------------------------------------


BULK_SHARE = 0.2  # of the tokens, for bulk requests while others wait
SHORT = 0.25  # a short sequence has at most this fraction of the typical length
SLACK = 64  # entries of sequences that are gone and clients whose share is used up, before they are removed


class Ticket:
    """The sequences of one request in the queue.

    Args:
        key: What the model computes for them; only sequences with equal keys share a pack.
        lengths: Tokens of each sequence.
        client: Client whose use of the model they count toward.
        is_bulk: Whether they may wait for the sequences of others.

    Attributes:
        is_gone: Whether nobody waits for the result anymore.
        num_waiting: Sequences that no pack has taken.
        owner: Where they wait.
    """

    owner: _Class

    def __init__(self, key: Hashable, lengths: Sequence[int], client: str = "", is_bulk: bool = False) -> None:
        self.key, self.lengths, self.client, self.is_bulk = key, lengths, client, is_bulk
        self.is_gone = False
        self.num_waiting = len(lengths)
        self.waiting_tokens = sum(lengths)
        self.taken = bytearray(len(lengths))


@dataclass(frozen=True)
class Pack:
    """Sequences to compute together: (ticket, index of the sequence) each."""

    key: Hashable
    items: list[tuple[Ticket, int]]

    @property
    def num_tokens(self) -> int:
        return sum(ticket.lengths[index] for ticket, index in self.items)


@dataclass
class _Line:
    """Waiting sequences in one order: a heap of (order, number, ticket, index). Taken ones are skipped."""

    heap: list[tuple[float, int, Ticket, int]] = field(default_factory=list)

    def add(self, order: float, number: int, ticket: Ticket, index: int) -> None:
        """Adds a sequence. number: orders sequences that are equal otherwise."""
        heappush(self.heap, (order, number, ticket, index))

    def first(self) -> tuple[float, Ticket, int] | None:
        """The first sequence that still waits, which stays in the line."""
        while self.heap:
            order, _, ticket, index = self.heap[0]
            if not ticket.is_gone and not ticket.taken[index]:
                return order, ticket, index
            heappop(self.heap)
        return None

    def trim(self, waiting: int) -> None:
        """Removes the sequences that are gone if they are most of the heap: some never come to its front."""
        if len(self.heap) > 2 * waiting + SLACK:
            self.heap = [entry for entry in self.heap if not entry[2].is_gone and not entry[2].taken[entry[3]]]
            heapify(self.heap)


@dataclass
class _Class:
    """Sequences of one key, interactive or bulk, in both orders, with the clock of their fair order.

    num_waiting: Sequences that no pack has taken; tokens, squares: sums of their lengths and of their squares.
    """

    num_waiting: int = 0
    tokens: int = 0
    squares: int = 0
    shortest: _Line = field(default_factory=_Line)
    fair: _Line = field(default_factory=_Line)
    now: float = 0.0  # virtual time: start of the sequence taken last
    ends: dict[str, float] = field(default_factory=dict)  # virtual time at which a client's share is used up

    def add(self, ticket: Ticket, numbers: Iterator[int]) -> None:
        ticket.owner = self
        self.count(ticket.lengths, 1)
        end = max(self.ends.get(ticket.client, 0.0), self.now)
        for index, length in enumerate(ticket.lengths):
            self.shortest.add(length, next(numbers), ticket, index)
            self.fair.add(end, next(numbers), ticket, index)
            end += length
        self.ends[ticket.client] = end
        self.shortest.trim(self.num_waiting)
        self.fair.trim(self.num_waiting)
        if len(self.ends) > 2 * self.num_waiting + SLACK:
            self.ends = {client: end for client, end in self.ends.items() if end > self.now}

    def count(self, lengths: Iterable[int], sign: int) -> None:
        """Adds (sign 1) or removes (sign -1) sequences of these lengths from the sums."""
        for length in lengths:
            self.num_waiting += sign
            self.tokens += sign * length
            self.squares += sign * length * length

    def is_empty(self) -> bool:
        """Whether nothing waits; then the shares of clients are forgotten."""
        if self.num_waiting:
            return False
        self.shortest.heap.clear()
        self.fair.heap.clear()
        self.ends.clear()  # nobody is ahead of anybody
        return True


@dataclass
class _Key:
    """All waiting sequences of one key. credit: tokens that bulk sequences may take ahead of the others."""

    interactive: _Class = field(default_factory=_Class)
    bulk: _Class = field(default_factory=_Class)
    credit: float = 0.0

    @property
    def typical_length(self) -> float:
        """Length of the sequence that an average waiting token belongs to; something must wait."""
        squares = self.interactive.squares + self.bulk.squares
        return squares / (self.interactive.tokens + self.bulk.tokens)


class Batcher:
    """Waiting sequences. Attributes: num_requests and num_tokens that wait, and the tokens by key."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, _Key] = {}  # in the order of their turns
        self._numbers = count()
        self.num_requests = 0
        self.num_tokens = 0
        self.tokens_by_key: dict[Hashable, int] = {}

    def add(self, ticket: Ticket) -> None:
        """Adds the sequences of a request, which must have at least one."""
        key = self._keys.setdefault(ticket.key, _Key())
        (key.bulk if ticket.is_bulk else key.interactive).add(ticket, self._numbers)
        self.num_requests += 1
        self._count(ticket, ticket.waiting_tokens)

    def drop(self, ticket: Ticket) -> None:
        """Removes what still waits of a request that nobody waits for."""
        if ticket.is_gone:
            return
        ticket.is_gone = True
        if ticket.num_waiting:
            self.num_requests -= 1
            waiting = (length for length, taken in zip(ticket.lengths, ticket.taken, strict=True) if not taken)
            ticket.owner.count(waiting, -1)
            self._count(ticket, -ticket.waiting_tokens)
            ticket.num_waiting = ticket.waiting_tokens = 0

    def take(self, budget_of: Callable[[Any], int]) -> Pack | None:
        """Removes the sequences of the next pack; None if nothing waits.

        budget_of: tokens of a pack, by key. The pack has at most that many; only a sequence whose turn it is, and that
        has more than half of them, comes on top of a half pack.
        """
        while self._keys:
            name = next(iter(self._keys))
            key = self._keys.pop(name)
            has_interactive, has_bulk = not key.interactive.is_empty(), not key.bulk.is_empty()
            if not has_interactive and not has_bulk:
                continue
            items = self._fill(key, budget_of(name), has_interactive, has_bulk)
            if not (key.interactive.is_empty() and key.bulk.is_empty()):
                self._keys[name] = key  # to the end of the turns
            return Pack(name, items)
        return None

    # -- private ---------------------------------------------------------------------------------------------------

    def _fill(self, key: _Key, budget: int, has_interactive: bool, has_bulk: bool) -> list[tuple[Ticket, int]]:
        items: list[tuple[Ticket, int]] = []
        both = has_interactive and has_bulk
        is_bulk_turn = has_bulk and (not has_interactive or key.credit > 0)
        turn, other = (key.bulk, key.interactive) if is_bulk_turn else (key.interactive, key.bulk)
        first = turn.fair.first()
        assert first is not None, "a sequence waits"
        turn.now = max(turn.now, first[0])
        short = SHORT * key.typical_length
        taken = self._move(first, items)  # of any length
        used = taken + self._take(key.interactive, key.interactive.shortest, budget / 2, items, short)
        limit = budget - used
        more = self._take(turn, turn.fair, min(limit, key.credit - taken) if both and is_bulk_turn else limit, items)
        used += more
        used += self._take(other, other.fair, budget - used, items)
        key.credit = key.credit + BULK_SHARE * used - (taken + more if is_bulk_turn else 0) if both else 0.0
        return items

    def _count(self, ticket: Ticket, tokens: int) -> None:
        self.num_tokens += tokens
        left = self.tokens_by_key.get(ticket.key, 0) + tokens
        if left:
            self.tokens_by_key[ticket.key] = left
        else:
            self.tokens_by_key.pop(ticket.key, None)

    def _take(
        self, own: _Class, line: _Line, limit: float, items: list[tuple[Ticket, int]], longest: float = inf
    ) -> int:
        """Moves sequences of at most `longest` tokens from the front of a line while they fit; returns their tokens."""
        used = 0
        while (found := line.first()) is not None:
            length = found[1].lengths[found[2]]
            if length > longest or used + length > limit:
                break
            if line is own.fair:
                own.now = max(own.now, found[0])
            used += self._move(found, items)
        return used

    def _move(self, found: tuple[float, Ticket, int], items: list[tuple[Ticket, int]]) -> int:
        _, ticket, index = found
        ticket.taken[index] = 1
        ticket.num_waiting -= 1
        length = ticket.lengths[index]
        ticket.owner.count((length,), -1)
        ticket.waiting_tokens -= length
        self._count(ticket, -length)
        self.num_requests -= not ticket.num_waiting
        items.append((ticket, index))
        return length
