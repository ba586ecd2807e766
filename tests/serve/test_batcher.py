"""Laws of the queue: budget, no starvation, short texts wait one pack, shares of clients and of bulk requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.serve.batcher import Admission, Batcher, Ticket
from maskwright.serve.request_context import Refused

BUDGET = 64
lengths = st.lists(st.integers(1, 80), min_size=1, max_size=12)
requests = st.lists(
    st.builds(Ticket, st.sampled_from("AB"), lengths, st.sampled_from(["x", "y", ""]), st.booleans()), max_size=12
)


def take(batcher, budget=BUDGET):
    return batcher.take(lambda key: budget)


def filled(tickets):
    batcher = Batcher()
    for ticket in tickets:
        batcher.add(ticket)
    return batcher


@given(requests)
def test_every_sequence_is_taken_once_in_packs_of_one_key_within_the_budget(tickets):
    batcher = filled(tickets)
    assert batcher.num_tokens == sum(sum(ticket.lengths) for ticket in tickets)
    found = []
    while (pack := take(batcher)) is not None:
        assert pack.items and all(ticket.key == pack.key for ticket, _ in pack.items)
        first = pack.items[0][0].lengths[pack.items[0][1]]
        assert pack.num_tokens <= max(BUDGET, first + BUDGET / 2)
        found += [(id(ticket), index) for ticket, index in pack.items]
        assert batcher.num_requests == sum(ticket.num_waiting > 0 for ticket in tickets)
        assert batcher.num_tokens == sum(ticket.waiting_tokens for ticket in tickets)
        assert sum(batcher.tokens_by_key.values()) == batcher.num_tokens
    expected = [(id(ticket), index) for ticket in tickets for index in range(len(ticket.lengths))]
    assert sorted(found) == sorted(expected) and batcher.num_requests == batcher.num_tokens == 0


@given(requests, st.integers(1, BUDGET // 4))
def test_a_text_much_shorter_than_all_others_is_in_the_next_pack_of_its_key(tickets, length):
    own = Ticket("A", [length])
    others = [Ticket(one.key, [4 * length + size for size in one.lengths], one.client, one.is_bulk) for one in tickets]
    batcher = filled([*others, own])
    for _ in range(2):  # each key has a turn
        take(batcher)
    assert own.num_waiting == 0


@given(st.lists(st.integers(4, 15), min_size=1, max_size=60))
def test_texts_of_similar_lengths_are_taken_in_the_order_of_their_arrival(sizes):
    tickets = [Ticket("A", [size]) for size in sizes]
    batcher = filled(tickets)
    found = []
    while (pack := take(batcher)) is not None:
        found += [ticket for ticket, _ in pack.items]
    assert found == tickets


@given(st.lists(st.integers(1, 8), min_size=1, max_size=40))
def test_a_long_text_is_taken_although_short_ones_keep_coming(sizes):
    long = Ticket("A", [80], "x")
    batcher = filled([Ticket("A", [8] * 20, "y"), long])
    waited = 0
    for size in sizes * 20:
        if not long.num_waiting:
            break
        batcher.add(Ticket("A", [size] * 4, "y"))
        take(batcher)
        waited += 1
    assert not long.num_waiting and waited <= 20


def test_two_clients_have_equal_shares():
    greedy, modest = Ticket("A", [8] * 400, "greedy"), [Ticket("A", [8], "modest") for _ in range(20)]
    batcher = filled([greedy, *modest])
    for _ in range(6):
        take(batcher)
    assert sum(one.num_waiting for one in modest) == 0


def test_bulk_has_a_fifth_while_others_wait_and_everything_when_nobody_does():
    bulk, others = Ticket("A", [4] * 4000, is_bulk=True), Ticket("A", [4] * 1000)
    batcher = filled([bulk, others])
    taken = 0
    while others.num_waiting:
        pack = take(batcher)
        taken += pack.num_tokens
    share = (sum(bulk.lengths) - bulk.waiting_tokens) / taken
    assert 0.15 < share < 0.25 and take(batcher).num_tokens == BUDGET


@given(requests, st.data())
def test_what_is_dropped_is_never_taken(tickets, data):
    batcher = filled(tickets)
    take(batcher)
    gone = data.draw(st.sets(st.sampled_from(range(len(tickets))))) if tickets else set()
    for number in gone:
        batcher.drop(tickets[number])
        batcher.drop(tickets[number])
    while (pack := take(batcher)) is not None:
        assert not {id(ticket) for ticket, _ in pack.items} & {id(tickets[number]) for number in gone}
    assert batcher.num_requests == batcher.num_tokens == 0
    assert all(one.owner.num_waiting == one.owner.tokens == one.owner.squares == 0 for one in tickets)


def test_models_take_turns():
    batcher = filled([Ticket("A", [32] * 10), Ticket("B", [1])])
    assert {take(batcher).key, take(batcher).key} == {"A", "B"}


# -- admission ---------------------------------------------------------------------------------------------------


def admission(requests=0, seconds=0.0):
    return Admission(4, 5.0, lambda: (requests, seconds))


def refused(gate, seconds, timeout=30.0):
    with pytest.raises(Refused) as found:
        gate.enter(seconds, timeout)
    return found.value


def test_a_full_queue_says_when_to_come_back():
    assert refused(admission(), 5.1).status == 413  # it would never fit
    assert refused(admission(requests=1, seconds=2.0), 1.0, timeout=2.5).reason == "deadline"
    for gate in (admission(requests=4, seconds=1.0), admission(requests=1, seconds=4.5)):
        found = refused(gate, 1.0)
        assert found.status == 429 and found.reason == "queue_full"
        assert int(found.headers["retry-after"]) >= 1 and int(found.headers["retry-after-ms"]) > 0


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
