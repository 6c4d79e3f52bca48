"""The ledger finds what a broken client or store would do."""

from __future__ import annotations

from collections import Counter

import pytest

from gantry_simulation.ledger.delays import Due
from gantry_simulation.ledger.leases import Sight
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.offsets import Cell
from gantry_simulation.ledger.ordering import Call, OrderlyQueues
from gantry_simulation.ledger.places import Place
from gantry_simulation.ledger.transactions import COMMIT, ROLLBACK
from gantry_simulation.world.world import World

QUEUE = ("s", 0)


def queues_of(world: World) -> OrderlyQueues:
    return Ledger(world).groups.in_order("g")


def call(member: str, offset: int, life: int = 1, *, alive: bool = True) -> Call:
    return Call(member, life, lambda: alive, offset)


def consume(queues: OrderlyQueues, *calls: Call) -> None:
    for each in calls:
        queues.begin(QUEUE, each)
        queues.end(QUEUE, each, success=True)


def found(world: World) -> str:
    return "; ".join(violation.what for violation in world.violations)


def test_calls_in_order_repeats_of_failures_and_series_of_other_members_are_no_violation(
    world: World,
) -> None:
    queues = queues_of(world)
    consume(queues, call("a", 0), call("a", 1))
    failing = call("a", 2)
    queues.begin(QUEUE, failing)
    queues.end(QUEUE, failing, success=False)
    consume(queues, call("a", 2), call("b", 1), call("b", 2), call("b", 3), call("b", 1, life=2))
    assert world.violations == []
    assert queues.repeats == 2


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([call("a", 0), call("a", 2)], "1 is skipped"),
        (
            [call("a", 0), call("a", 1), call("a", 2), call("b", 0), call("b", 2)],
            "b is called with 2 after 0",
        ),
    ],
)
def test_a_skipped_message_is_found(world: World, calls: list[Call], words: str) -> None:
    consume(queues_of(world), *calls)
    assert words in found(world)


@pytest.mark.parametrize("alive", [True, False])
def test_two_calls_of_a_queue_at_a_time_are_found_unless_the_first_has_died(
    world: World, alive: bool
) -> None:
    queues = queues_of(world)
    queues.begin(QUEUE, call("a", 0, alive=alive))
    queues.begin(QUEUE, call("b", 0))
    assert ("while a runs" in found(world)) is alive


@pytest.mark.parametrize(("wait", "is_found"), [(11, True), (5, False)])
def test_a_series_below_an_offset_that_was_committed_long_before_is_found(
    world: World, wait: float, is_found: bool
) -> None:
    queues = queues_of(world)
    consume(queues, call("a", 0), call("a", 1))
    queues.committed(QUEUE, 2)
    world.run_for(wait)
    consume(queues, call("b", 1))
    assert ("2 was committed" in found(world)) is is_found


def test_a_store_that_restarted_may_have_lost_offsets(world: World) -> None:
    queues = queues_of(world)
    consume(queues, call("a", 0))
    queues.committed(QUEUE, 1)
    queues.forget_committed("s")
    world.run_for(20)
    consume(queues, call("b", 0))
    assert world.violations == []


def stored(ledger: Ledger, message: str, place: Place, *, is_durable: bool = True) -> None:
    ledger.messages.sent.add(message)
    ledger.messages.stored(message, place, ledger.since(*place[:2]), is_durable=is_durable)


def read(ledger: Ledger, message: str, place: Place, store_ms: int = 0) -> None:
    ledger.messages.sent.add(message)
    ledger.read(message, place, ledger.since(*place[:2]), is_durable=True, store_ms=store_ms)


def test_two_messages_at_a_place_one_at_two_places_and_an_unknown_one_are_found(world: World) -> None:
    ledger = Ledger(world)
    stored(ledger, "one", Place("s", "T", 0, 7))
    read(ledger, "two", Place("s", "T", 0, 7))
    assert "names one, and now two" in found(world)
    ledger.messages.key_of["keyed"] = "key"
    read(ledger, "keyed", Place("s", "T", 0, 8))
    read(ledger, "keyed", Place("s", "%RETRY%g", 0, 0))
    assert "key key" not in found(world)
    stored(ledger, "keyed", Place("s", "T", 1, 0))
    assert "key key was stored at" in found(world)
    ledger.read("none", Place("s", "T", 0, 9), ledger.since("s", "T"), is_durable=True, store_ms=0)
    assert "nobody sent" in found(world)


def test_a_message_that_is_stored_twice_is_found_unless_the_store_may_have_lost_it_between(
    world: World,
) -> None:
    ledger = Ledger(world)
    twice = {Place("s", "T", 0, 1): "m", Place("s", "T", 0, 2): "m"}
    ledger.losses.doubt("s")
    ledger.lost_undurable("s")
    ledger.check(twice, ledger.messages.delivered())
    assert world.violations == []
    again = Ledger(world)
    again.lost_undurable("s")
    again.check(twice, again.messages.delivered())
    assert "stored 2 times" in found(world)


def test_what_a_store_may_have_lost_is_not_required_and_the_rest_is(world: World) -> None:
    ledger = Ledger(world)
    stored(ledger, "written", Place("s", "T", 0, 0), is_durable=False)
    stored(ledger, "durable", Place("s", "T", 0, 1))
    ledger.lost_undurable("s")
    ledger.check({}, ledger.messages.delivered())
    assert "durable was acknowledged" in found(world)
    assert "written" not in found(world)


@pytest.mark.parametrize(("is_doubtful", "is_found"), [(True, False), (False, True)])
def test_an_answer_from_before_a_loss_shows_what_is_durable_unless_the_store_may_lose_what_it_shows(
    world: World, is_doubtful: bool, is_found: bool
) -> None:
    """A store under async flush answers a paused client, loses its power, and starts again under sync flush."""
    ledger, place = Ledger(world), Place("s", "T", 0, 0)
    if is_doubtful:
        ledger.losses.doubt("s")
    since = ledger.since("s", "T")
    ledger.lost_undurable("s")
    ledger.messages.sent.update(("lost", "new"))
    ledger.read("lost", place, since, is_durable=True, store_ms=0)
    read(ledger, "new", place)
    assert ("names lost, and now new" in found(world)) is is_found


def test_the_store_time_of_a_lost_message_is_not_that_of_the_next_one_at_its_place(world: World) -> None:
    ledger, place = Ledger(world), Place("s", "T", 0, 0)
    since = ledger.since("s", "T")
    ledger.messages.sent.add("lost")
    ledger.read("lost", place, since, is_durable=False, store_ms=7)
    assert ledger.messages.times == {place: 7}
    ledger.lost_undurable("s")
    assert ledger.messages.times == {}
    ledger.read("lost", place, since, is_durable=False, store_ms=7)
    assert ledger.messages.times == {}
    read(ledger, "new", place, store_ms=9)
    assert ledger.messages.times == {place: 9}


def test_what_is_acknowledged_and_not_consumed_is_missing(world: World) -> None:
    ledger = Ledger(world)
    stored(ledger, "one", Place("s", "T", 0, 0))
    stored(ledger, "two", Place("s", "T", 0, 1))
    ledger.groups.succeeded("g", "one", Place("s", "%RETRY%g", 0, 0))
    assert ledger.groups.missing("g", "T") == ["two at s T/0@1"]
    assert ledger.groups.redelivered == 1


def test_a_rolled_back_message_an_uncommitted_one_and_a_second_decision_are_found(world: World) -> None:
    ledger = Ledger(world)
    transactions = ledger.transactions
    for message in ("open", "back", "both"):
        transactions.begin(message, "T")
        transactions.acknowledged(message, "s", message)
    read(ledger, "open", Place("s", "T", 0, 0))
    assert "open is delivered before anybody commits it" in found(world)
    for decision in (COMMIT, ROLLBACK):
        transactions.requested("back", decision)
        transactions.requested("both", decision)
    transactions.decided("back", ROLLBACK)
    read(ledger, "back", Place("s", "T", 0, 1))
    assert "back is delivered, but it was rolled back" in found(world)
    transactions.decided("both", COMMIT)
    assert "twice" not in found(world)
    assert transactions.required() == {"both"}
    assert [message for message, _ in transactions.open()] == ["open"]
    transactions.decided("both", ROLLBACK)
    assert "both is decided twice" in found(world)


def test_an_early_check_is_found(world: World) -> None:
    transactions = Ledger(world).transactions
    transactions.begin("m", "T")
    world.run_for(2)
    transactions.checked("m", 1.9)
    assert world.violations == []
    transactions.checked("m", 2.1)
    assert "is checked" in found(world)


def test_an_early_delivery_and_one_of_a_cancelled_message_are_found(world: World) -> None:
    ledger = Ledger(world)
    delays, place = ledger.delays, Place("s", "T", 0, 0)
    delays.begin("wait", "s", "T", Due(world.now_ns, wait_seconds=3))
    delays.begin("instant", "s", "T", Due(world.now_ns, instant_ms=500))
    world.run_for(2)
    read(ledger, "instant", place, store_ms=500)
    assert world.violations == []
    read(ledger, "wait", place._replace(offset=1))
    assert "wait is early" in found(world)
    read(ledger, "instant", place, store_ms=499)
    assert "instant is early" in found(world)
    delays.acknowledged("instant")
    assert delays.required() == {"instant"}
    delays.may_be_cancelled("instant")
    assert delays.required() == set()
    delays.cancelled("instant")
    read(ledger, "instant", place, store_ms=500)
    assert "instant is cancelled and delivered" in found(world)


def test_a_message_whose_item_has_left_may_be_unknown_to_schedulers_and_must_be_delivered(
    world: World,
) -> None:
    delays = Ledger(world).delays
    for message in ("left", "stays"):
        delays.begin(message, "s", "T", Due(world.now_ns, wait_seconds=1))
        delays.acknowledged(message)
    delays.item_left("left")
    for message in ("left", "stays"):
        delays.not_found(message)
    assert [each.what for each in world.violations] == ["stays is unknown to the scheduler"]
    assert delays.required() == {"left", "stays"}


def test_a_moved_message_may_come_at_its_new_time_and_a_perhaps_moved_one_at_both(world: World) -> None:
    ledger = Ledger(world)
    delays, place = ledger.delays, Place("s", "T", 0, 0)
    late, soon = Due(0, instant_ms=900), Due(0, instant_ms=100)
    for number, message in enumerate(("moved", "perhaps", "not")):
        delays.begin(message, "s", "T", late)
        delays.may_be_moved(message, soon)
        if message == "moved":
            delays.moved(message, soon)
        elif message == "not":
            delays.not_moved(message, soon)
        assert world.violations == []
        read(ledger, message, place._replace(offset=number), store_ms=100)
    assert "not is early" in found(world)
    assert len(world.violations) == 1


@pytest.mark.parametrize("is_together", [True, False])
def test_of_moves_at_the_same_time_either_may_be_the_last_and_of_others_the_later_is(
    world: World, is_together: bool
) -> None:
    ledger = Ledger(world)
    delays = ledger.delays
    delays.begin("m", "s", "T", Due(0, instant_ms=500_000))
    soon, late = Due(world.now_ns, instant_ms=100), Due(world.now_ns, instant_ms=900_000)
    world.run_for(1)
    if not is_together:
        late = late._replace(from_ns=world.now_ns + 1)
    for due in (soon, late):
        delays.may_be_moved("m", due)
        delays.moved("m", due)
        world.run_for(1)
    read(ledger, "m", Place("s", "T", 0, 0), store_ms=100)
    assert [each.what.startswith("m is early") for each in world.violations] == [True] * (not is_together)
    last = Due(world.now_ns, instant_ms=700_000)
    delays.may_be_moved("m", last)
    delays.moved("m", last)
    assert delays.delayed["m"].all_due() == [last]


def test_while_a_deletion_has_no_answer_nothing_binds_and_after_the_last_answer_it_does(world: World) -> None:
    ledger = Ledger(world)
    ledger.deletion_begins("s", "T")
    ledger.deletion_begins("s", "T")
    stored(ledger, "one", Place("s", "T", 0, 0))
    assert ledger.messages.required == {}
    ledger.deletion_ends("s", "T")
    stored(ledger, "two", Place("s", "T", 0, 1))
    stored(ledger, "other", Place("s", "U", 0, 0))
    ledger.deletion_ends("s", "T")
    stored(ledger, "three", Place("s", "T", 0, 2))
    assert ledger.messages.required == {Place("s", "U", 0, 0): "other", Place("s", "T", 0, 2): "three"}


def test_what_was_delivered_before_the_reading_must_be_there_and_what_came_during_it_may_be_missing(
    world: World,
) -> None:
    ledger = Ledger(world)
    read(ledger, "before", Place("s", "T", 0, 0))
    delivered = ledger.messages.delivered()
    read(ledger, "during", Place("s", "T", 0, 1))
    ledger.check({Place("s", "T", 0, 0): "before"}, delivered)
    assert world.violations == []
    ledger.check({}, delivered)
    assert [violation.what for violation in world.violations] == [
        f"before was delivered from {Place('s', 'T', 0, 0)}, where now is nothing"
    ]


def test_a_deletion_without_an_answer_may_still_happen_in_the_end(world: World) -> None:
    ledger = Ledger(world)
    stored(ledger, "one", Place("s", "T", 0, 0))
    ledger.deletion_begins("s", "T")
    stored(ledger, "two", Place("s", "T", 0, 1))
    ledger.check({}, ledger.messages.delivered())
    assert world.violations == []


CELL = Cell("store-0", "G", "Topic0", 0)


@pytest.mark.parametrize(
    ("deletes", "violations"),
    [("T", ""), ("U", "one at s T/0@0 is acknowledged under a lease that another one replaced")],
)
def test_an_acknowledgment_under_a_replaced_lease_may_succeed_once_the_topic_is_deleted(
    world: World, deletes: str, violations: str
) -> None:
    ledger, sight, life = Ledger(world), Sight(Place("s", "T", 0, 0), "one"), 1

    def receive() -> int:
        world.run_for(2)
        ledger.leases.received(sight, world.now_ns, seconds=1, life=life)
        return world.now_ns

    seen_ns = receive()
    receive()
    ledger.deletion_begins("s", deletes)
    ledger.deletion_ends("s", deletes)
    is_late = ledger.leases.acking(sight, seen_ns, life)
    ledger.leases.acked(sight, seen_ns, is_late=is_late)
    ledger.check({}, ledger.messages.delivered())
    assert found(world) == violations


@pytest.mark.parametrize(("deaths", "is_found"), [(1, True), (2, False)])
def test_an_acknowledgment_of_a_redriven_message_that_died_again_may_succeed_under_a_replaced_lease(
    world: World, deaths: int, is_found: bool
) -> None:
    """Both dead letters name the place where the message was first."""
    leases, copy = Ledger(world).leases, Sight(Place("s", "%RETRY%g", 0, 0), "one")
    seen: list[int] = []
    for _ in range(2):
        world.run_for(2)
        leases.received(copy, world.now_ns, seconds=1, life=1)
        seen.append(world.now_ns)
    leases.acked(copy, seen[0], is_late=leases.acking(copy, seen[0], life=1))
    leases.deaths = Counter({Sight(Place("s", "T", 0, 0), "one"): deaths})
    leases.check()
    assert ("under a lease that another one replaced" in found(world)) is is_found


def test_a_commit_that_meets_a_deletion_may_be_gone_and_one_after_it_may_not(world: World) -> None:
    ledger = Ledger(world)

    def commit(offset: int, *, meets: bool) -> None:
        commit = ledger.offsets.begin(CELL, offset)
        world.run_for(1)
        if meets:
            ledger.offsets.deleted("store-0", "Topic0")
        ledger.offsets.answered(commit)

    def read(offset: int | None) -> None:
        world.run_for(1)
        ledger.offsets.read(CELL, offset, world.now_ns)

    commit(21, meets=True)
    read(None)
    read(21)
    assert not world.violations
    commit(22, meets=False)
    read(22)
    assert not world.violations
    read(None)
    assert [each.what for each in world.violations] == [f"{CELL} has the offset None, not 22"]


def test_while_a_deletion_has_no_answer_it_may_take_offsets_and_after_the_answer_it_may_not(
    world: World,
) -> None:
    ledger = Ledger(world)

    def commit_and_find_none(offset: int) -> None:
        ledger.offsets.answered(ledger.offsets.begin(CELL, offset))
        world.run_for(1)
        ledger.read_offset(CELL, None, ledger.since(CELL.store, CELL.topic), world.now_ns)

    ledger.deletion_begins(CELL.store, CELL.topic)
    commit_and_find_none(21)
    assert not world.violations
    ledger.deletion_ends(CELL.store, CELL.topic)
    commit_and_find_none(22)
    assert [each.what for each in world.violations] == [f"{CELL} has the offset None, not 22"]
