"""Which requests are let in."""

from __future__ import annotations

import pytest

from maskwright.serve.admission import Admission, tokens_of_characters
from maskwright.serve.refusals import Refused


def admission(requests=0, seconds=0.0):
    return Admission(4, 5.0, lambda: (requests, seconds))


def refused(gate, seconds, timeout=30.0):
    with pytest.raises(Refused) as found:
        gate.enter(seconds, timeout)
    return found.value


def test_a_request_that_never_fits_is_too_large():
    assert refused(admission(), 5.1).status == 413


def test_a_full_queue_says_when_to_come_back():
    for gate in (admission(requests=4, seconds=1.0), admission(requests=1, seconds=4.5)):
        found = refused(gate, 1.0)
        assert found.status == 429 and found.reason == "queue_full"
        assert int(found.headers["retry-after"]) >= 1 and int(found.headers["retry-after-ms"]) > 0


def test_a_deadline_out_of_reach_is_refused_at_once():
    assert refused(admission(requests=1, seconds=2.0), 1.0, timeout=2.5).reason == "deadline"


def test_places_count_until_they_are_left():
    gate = admission()
    places = [gate.enter(1.0, 30) for _ in range(4)]
    assert gate.waiting == (4, 4.0) and refused(gate, 0.1).status == 429
    for place in places:
        gate.leave(place)
        gate.leave(place)
    assert gate.waiting == (0, 0.0)


def test_a_full_queue_stays_full_until_something_leaves_it():
    waiting = [9, 4.9]
    gate = Admission(100, 5.0, lambda: tuple(waiting))
    gate.check(30)
    assert refused(gate, 0.2).reason == "queue_full"
    with pytest.raises(Refused) as found:
        gate.check(30)
    assert found.value.status == 429 and int(found.value.headers["retry-after"]) >= 1
    waiting[:] = 8, 4.8
    gate.check(30)
    gate.enter(0.1, 30)


def test_a_large_request_that_does_not_fit_leaves_room_for_small_ones():
    gate = admission(requests=3, seconds=3.0)
    assert refused(gate, 2.5).status == 429
    gate.check(30)
    gate.enter(0.1, 30)


def test_too_many_requests_and_deadlines_are_seen_without_the_body():
    for gate, timeout, reason in (
        (admission(requests=4, seconds=0.1), 30, "queue_full"),
        (admission(requests=1, seconds=2.0), 1.5, "deadline"),
    ):
        with pytest.raises(Refused) as found:
            gate.check(timeout)
        assert found.value.status == 429 and found.value.reason == reason
    admission().check(0.001)


def test_estimates_are_bounded_by_the_longest_text():
    assert tokens_of_characters(3_000_000, 2, 512) == 1024
    assert tokens_of_characters(30, 1, 512) == 12
    assert tokens_of_characters(3_000_000, 1, None) == 1_000_002
