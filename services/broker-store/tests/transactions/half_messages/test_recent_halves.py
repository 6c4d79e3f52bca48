"""Remembered halves: a decision from memory equals one from the log, and memory stays bounded."""

import pytest
from sending_side import ScriptedPeer
from transactions_side import ROLLBACK, TransactionsSide

from broker_store.transactions.half_messages.recent_halves import (
    GENERATION_BYTES_MAX,
    GENERATION_HALVES_MAX,
    Half,
    HalfKind,
    RecentHalves,
    ordinary_half,
)
from gantry_wire.names import HALF_TOPIC

pytestmark = pytest.mark.anyio


def half(position: int, size: int = 100) -> Half:
    return Half(HalfKind("pg", "orders", 0), 0, position, size, "U1", None, 0, 0, 0, 0, b"", 0, b"", 0, b"")


async def test_a_remembered_half_equals_the_one_in_the_log():
    side, peer = TransactionsSide(), ScriptedPeer()
    for key in ("U1", "U2", "U3"):  # the third is stored by its shape
        await side.begin(peer, key, 3, body=b"pay", KEYS="k1 k2", TAGS="t")
    for stored in side.records(HALF_TOPIC):
        kept = side.sending.halves.recent.take(stored.position)
        assert kept is not None
        assert kept == ordinary_half(stored, stored.property_map())


@pytest.mark.parametrize(
    "more",
    [{"DELAY": "3"}, {"TIMER_DELAY_MS": "9"}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "9"}, {"UNIQ_KEY": "a-b"}],
)
async def test_a_half_that_needs_more_is_not_ordinary(more):
    side, peer = TransactionsSide(), ScriptedPeer()
    await side.begin(peer, **{"key": more.pop("UNIQ_KEY", "U1"), **more})
    (stored,) = side.records(HALF_TOPIC)
    assert side.sending.halves.recent.take(stored.position) is None
    assert ordinary_half(stored, stored.property_map()) is None


async def test_commits_from_memory_and_from_the_log_store_the_same_message():
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = [await side.begin(peer, f"U{n}", 1, body=b"pay", TAGS="t") for n in range(2)]
    side.sending.halves.recent.take(int(halves[1].msg_id[-16:], 16))
    for begun in halves:
        side.ask(peer, 37, side.end_header(begun))
        await side.settled()
    first, second = side.records("orders", 1)
    assert (first.body, first.sys_flag, first.born_timestamp) == (
        second.body,
        second.sys_flag,
        second.born_timestamp,
    )
    one, other = first.property_map(), second.property_map()
    assert one.keys() == other.keys()
    assert one["TAGS"] == other["TAGS"] == "t"


async def test_a_second_decision_is_answered_from_the_log():
    side, peer = TransactionsSide(), ScriptedPeer()
    begun = await side.begin(peer)
    for decision in (8, 8, ROLLBACK):
        side.ask(peer, 37, side.end_header(begun, decision))
        await side.settled()
    assert [answer.code for answer in peer.answers[-3:-1]] == [0, 0]
    assert peer.answers[-1].code != 0
    assert len(side.records("orders", 2)) == 1


def test_the_latest_are_kept_up_to_a_bound():
    recent = RecentHalves()
    for position in range(3 * GENERATION_HALVES_MAX):
        recent.add_all([half(position)])
    kept = [position for position in range(3 * GENERATION_HALVES_MAX) if recent.take(position) is not None]
    assert GENERATION_HALVES_MAX <= len(kept) <= 2 * GENERATION_HALVES_MAX
    assert kept[-1] == 3 * GENERATION_HALVES_MAX - 1


def test_large_ones_count_by_their_bytes():
    recent = RecentHalves()
    size = GENERATION_BYTES_MAX // 4
    for position in range(40):
        recent.add_all([half(position, size)])
    recent.add_all([half(100, GENERATION_BYTES_MAX + 1)])
    assert recent.take(100) is None
    assert sum(recent.take(position) is not None for position in range(40)) <= 10
