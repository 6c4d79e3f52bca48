"""A receive that is repeated because its answer was lost: the same messages under the same lease, and no further attempt."""

import random

import pytest
from leasing_side import LeasingSide, bodies

from broker_store.leases import receive_attempts
from gantry_wire.codes import ResponseCode

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(anyio_backend):
    return LeasingSide()


async def test_a_repeat_returns_what_is_not_settled_yet(side):
    side.put(*"abcd")
    first = side.lease(max_messages=3, attempt_id="one")
    again = side.lease(max_messages=3, attempt_id="one")
    assert [(one.body, one.lease, one.attempt) for one in again] == [
        (one.body, one.lease, one.attempt) for one in first
    ]
    side.ack(first[1])
    side.nack(first[2], delay_ms=5000)
    assert bodies(side.lease(attempt_id="one")) == ["a"]
    assert bodies(side.lease(attempt_id="two")) == ["d"]
    assert side.lease(attempt_id="") == []


async def test_an_attempt_ends_with_its_leases(side):
    side.put("a", "b")
    side.lease(max_messages=1, attempt_id="one", invisible_ms=5000)
    side.pass_time(5.1)
    again = side.lease(attempt_id="one")
    assert [(one.body, one.attempt) for one in again] == [("a", 2), ("b", 1)]


async def test_an_attempt_is_that_of_one_group_and_topic(side):
    side.put("a")
    side.lease(attempt_id="one")
    assert bodies(side.lease(group="other", attempt_id="one")) == ["a"]


async def test_an_extension_keeps_a_message_for_a_repeat(side):
    side.put("a")
    (message,) = side.lease(attempt_id="one", invisible_ms=5000)
    side.extend(message, invisible_ms=60_000)
    side.pass_time(20)
    assert [(one.lease, one.attempt) for one in side.lease(attempt_id="one")] == [(message.lease, 1)]


async def test_the_oldest_attempt_is_forgotten_first(side, monkeypatch):
    monkeypatch.setattr(receive_attempts, "ATTEMPTS_MAX", 2)
    side.put(*"abc")
    for name in "xyz":
        side.lease(max_messages=1, attempt_id=name)
    assert bodies(side.lease(attempt_id="y")) == ["b"]
    assert side.lease(attempt_id="x") == []


async def test_a_long_attempt_id_is_refused(side):
    assert side.lease_raw(attempt_id="x" * 256).code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("seed", range(10))
async def test_a_repeat_has_the_unfinished_messages_of_its_receive(anyio_backend, seed):
    """Compared with a model: the messages of each receive that were neither settled nor timed out."""
    chance = random.Random(seed)
    side = LeasingSide()
    side.put(*[f"m{number}" for number in range(40)])
    held: dict[str, dict[str, object]] = {}
    ends: dict[str, float] = {}
    now = 0.0
    for step in range(40):
        live = [name for name in held if ends[name] > now and held[name]]
        choice = chance.randrange(4)
        if choice == 0:
            name, seconds = f"r{step}", chance.randrange(2, 20)
            got = side.lease(
                max_messages=chance.randrange(1, 7), attempt_id=name, invisible_ms=seconds * 1000
            )
            held[name], ends[name] = {one.body: one for one in got}, now + seconds
        elif choice == 1 and live:
            of_name = held[chance.choice(live)]
            chosen = [
                of_name.pop(body)
                for body in chance.sample(sorted(of_name), chance.randrange(1, len(of_name) + 1))
            ]
            settle = side.ack if chance.random() < 0.5 else side.nack
            settle(*chosen)
        elif choice == 2 and live:
            name = chance.choice(live)
            again = side.lease(attempt_id=name)
            assert {one.body: one.lease for one in again} == {
                body: one.lease for body, one in held[name].items()
            }
        else:
            seconds = chance.randrange(3) + 0.5
            side.pass_time(seconds)
            now += seconds
