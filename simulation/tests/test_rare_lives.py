"""Lives in which rare faults come together: what is legal there is no violation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count

import msgspec
import pytest

from gantry_simulation.lives.drawing.retention import LARGE_BODY, SMALL_SEGMENT_BYTES
from gantry_simulation.lives.faults.damage import TARGETS
from gantry_simulation.lives.faults.disks import PARTS, SKIPPED_STEPS, WRITING
from gantry_simulation.lives.life import live
from gantry_simulation.lives.operations.reading import READ_AT_ONCE
from gantry_simulation.lives.operations.sends import BATCH
from gantry_simulation.lives.plan import Act, Plan, Shape, StoreShape
from gantry_wire.records.units import CONSUME_QUEUE_UNIT_BYTES
from gantrymq import Message, MessageQueue

STORE = "store-0"
UNIT, INDEX = TARGETS[3], TARGETS[4]
"""Of bits that change."""
POSITION_BYTES = 8
"""A unit begins with the position of its record."""
ODD_KEY_EVERYWHERE = 2
"""The number of a bulk task on the delayed messages with odd numbers, of all stores: not slow, stopped or dry."""
LISTED_AT = 2
"""A seed with which a list is answered in that time."""
DRY = 8
"""That of one on no message, which changes nothing."""


def act(at_ms: int, kind: str, number: int = 0, *, on: str = STORE, span_ms: int = 20) -> Act:
    by = "client-0" if on.startswith("store") else ""
    return Act(at_ms=at_ms, kind=kind, on=on, by=by, number=number, span_ms=span_ms, size=16)


def failing_sync(skipped: int) -> int:
    """Return the number of a disk error that fails a sync of the log, after some others."""
    for number in count():
        rng = random.Random(number)
        drawn = rng.choice(WRITING), rng.choice(PARTS), rng.randrange(SKIPPED_STEPS)
        if drawn == ("sync", "commitlog", skipped):
            return number
    raise AssertionError


@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_a_sync_that_fails_in_the_next_life_of_a_store_loses_what_was_written_then(kind: str) -> None:
    acts = (
        act(200, "send", 1),
        act(1_000, "disk error", failing_sync(skipped=3)),
        act(1_010, kind),
        *(act(2_000 + 50 * number, "send early", number) for number in range(10)),
        act(2_600, "kill"),
    )
    life = live(Plan(seed=1, seconds=4.0, shape=Shape(stores=(StoreShape(),)), acts=acts))
    assert life.violations == []
    assert any("written" in line for line in life.history)
    assert any("injected at sync" in line for line in life.history)


def test_a_task_may_leave_out_a_store_that_its_scheduler_did_not_know() -> None:
    """The scheduler starts while the second store is away. That store is back before the client looks at its messages."""
    acts = (
        *(
            act(600 + number, "http send delayed", number, on=store, span_ms=9_000)
            for number, store in ((1, STORE), (3, "store-1"))
        ),
        act(2_000, "stop", on="store-1", span_ms=750),
        act(2_150, "kill", on="scheduler-0"),
        act(2_600, "http bulk cancel", ODD_KEY_EVERYWHERE),
    )
    shape = Shape(stores=(StoreShape(), StoreShape()), nameservers=1, schedulers=1, gateways=1)
    life = live(Plan(seed=1, seconds=9.0, shape=shape, acts=acts))
    assert life.violations == []
    assert any("outcomes={'cancelled': 1}" in line for line in life.history)


def without_a_store(seed: int, away_ms: int, *more: Act) -> Plan:
    """A gateway starts while a store is away that it does not know: the topic was made by sends, so no list of its queues names it."""
    acts = (
        *(act(200 + number, "send", number, on=on) for number, on in enumerate((STORE, "store-1"))),
        *(act(600 + number, "http send delayed", number, span_ms=9_000) for number in (1, 3, 5)),
        act(2_000, "http bulk cancel", DRY),
        act(2_900, "stop", span_ms=away_ms),
        act(3_000, "kill", on="gateway-0"),
        *(act(3_200 + 50 * number, "http list") for number in range(4)),
        *more,
    )
    shape = Shape(stores=(StoreShape(), StoreShape()), nameservers=1, schedulers=1, gateways=1)
    return Plan(seed=seed, seconds=9.0, shape=shape, acts=acts)


def test_a_list_leaves_out_what_waits_on_a_store_that_the_gateway_does_not_know() -> None:
    """It is asked for until the store listens again, before it is registered."""
    plan = without_a_store(LISTED_AT, 580, *(act(3_440 + number, "http list") for number in range(140)))
    life = live(plan)
    assert life.violations == []
    starts = next(at for at, line in enumerate(life.history) if "store-0     starts" in line)
    assert any("lists Topic0 : , without []" in line for line in life.history[starts:])


def test_a_list_leaves_out_tasks_of_a_store_that_the_gateway_does_not_know() -> None:
    lists = (act(5_000 + 200 * number, "http list tasks") for number in range(4))
    life = live(without_a_store(234, 3_000, *lists))
    assert life.violations == []
    assert any("lists tasks: , without []" in line for line in life.history)


@pytest.mark.parametrize(("number", "status"), [(45, "cancelled"), (129, "unknown")])
def test_a_store_whose_index_has_a_changed_bit_need_not_find_a_message_that_was_delivered(
    number: int, status: str
) -> None:
    """It has forgotten the outcome, and the scheduler asks it by key: for the order, or for where the message is now."""
    assert random.Random(number).choice(TARGETS) is INDEX
    acts = (
        act(300, "send by level", 3),
        act(2_500, "bit flip", number, span_ms=30),
        act(4_500, "cancel", 3),
    )
    shape = Shape(stores=(StoreShape(checkpoint_seconds=0.1),), nameservers=1, schedulers=1)
    life = live(Plan(seed=1, seconds=7.0, shape=shape, acts=acts))
    assert life.violations == []
    assert any(f"cancels d3: {status}" in line for line in life.history)


def changed_position(units: int, among: range) -> int:
    """Return the number of a bit flip that changes the position in one of these units of a store that has so many units."""
    for number in count():
        rng = random.Random(number)
        if (
            rng.choice(TARGETS) is UNIT
            and rng.choice(range(units)) in among
            and rng.randrange(CONSUME_QUEUE_UNIT_BYTES) < POSITION_BYTES
        ):
            return number
    raise AssertionError


def test_a_receive_may_leave_out_a_message_with_a_damaged_unit_that_a_pull_delivers() -> None:
    """The records of the pull touch. Behind them the receive gets one more, with a message of another queue before it."""
    batches = READ_AT_ONCE // BATCH + 1
    sent = batches * BATCH
    acts = (
        *(act(1_000 + 20 * number, "send batch", number) for number in range(batches)),
        msgspec.structs.replace(act(1_500, "send", 100), queue=1),
        act(1_600, "send", 101),
        act(3_000, "bit flip", changed_position(sent + 2, range(1, READ_AT_ONCE - 1))),
    )
    shape = Shape(stores=(StoreShape(checkpoint_seconds=0.1),), queues=2, nameservers=1, gateways=1)
    life = live(Plan(seed=1, seconds=4.0, shape=shape, acts=acts))
    assert life.violations == []
    assert any("consumequeue/Topic0/0/" in line and "changes" in line for line in life.history)
    received = next(line for line in life.history if "receives for 10 s: " in line)
    assert len(received.split(", ")) == sent + 1


@pytest.mark.parametrize(("sends", "status"), [(2, "alreadyDelivered"), (5, "unknown")])
def test_a_scheduler_need_not_know_a_delivered_message_whose_item_retention_has_deleted(
    sends: int, status: str
) -> None:
    """The message is in a later segment. With fewer sends, the segment of the item is the last, and stays."""
    acts = (
        act(300, "send by level", 3),
        *(msgspec.structs.replace(act(400, "send", 10 + number), size=LARGE_BODY) for number in range(sends)),
        act(4_500, "disk pressure", span_ms=3_000),
        # The segment has the only record of the topic: the store appends that again first.
        act(4_600, "delete old"),
        act(6_200, "delete old"),
        act(6_800, "cancel", 3),
    )
    shape = Shape(
        stores=(StoreShape(segment_bytes=SMALL_SEGMENT_BYTES, zero_ahead_bytes=0),),
        nameservers=1,
        schedulers=1,
        deletes_old=True,
    )
    life = live(Plan(seed=1, seconds=9.0, shape=shape, acts=acts))
    assert life.violations == []
    assert any(f"cancels d3: {status}" in line for line in life.history)


@pytest.mark.parametrize("is_moved", [True, False])
def test_the_messages_of_a_key_have_no_order_across_the_queues_that_it_moves_between(
    monkeypatch: pytest.MonkeyPatch, is_moved: bool
) -> None:
    """A key chooses among the queues of the route, which changes when a store leaves. Here it changes with each send."""
    sends = count()

    def choose(queues: Sequence[MessageQueue], _message: Message, _key: object) -> MessageQueue:
        number = next(sends)
        return queues[number % len(queues) if is_moved else 0]

    monkeypatch.setattr("gantrymq.producer.producer.by_hash", choose)
    shape = Shape(stores=(StoreShape(), StoreShape()), nameservers=1, producers=1)
    assert live(Plan(seed=1, seconds=6.0, shape=shape, acts=())).violations == []
    assert next(sends) > 20
