"""Which requests are let in: a bounded queue, by count and by seconds of work at the measured speed.

The decision comes before tokenization, by characters; the tokens of queued requests replace the estimate afterwards.
Only the event loop calls this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .refusals import Refused, retry_after, too_large

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
