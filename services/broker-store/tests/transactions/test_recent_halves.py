"""Halves that are remembered: what is decided from memory is what lies in the log, and memory stays bounded."""

import pytest
from sending_side import ScriptedPeer
from transactions_side import ROLLBACK, TransactionsSide

from broker_store.transactions.recent_halves import GENERATION_BYTES_MAX, GENERATION_HALVES_MAX, RecentHalves
from gantry_wire.names import HALF_TOPIC
from gantry_wire.record import Record

pytestmark = pytest.mark.anyio


def half(position: int, size: int = 100) -> tuple[Record, dict[str, str]]:
    fields = (size, 0, 0, 0, 0, 0, position, 0, 0, b"", 0, b"", 0, 0, b"", b"", b"")
    return Record._make(fields), {}


async def test_a_remembered_half_equals_the_one_in_the_log():
    side, peer = TransactionsSide(), ScriptedPeer()
    await side.begin(peer, "U1", 3, body=b"pay", KEYS="k1 k2", TAGS="t")
    (stored,) = side.records(HALF_TOPIC)
    kept = side.sending.halves.recent.take(stored.position)
    assert kept is not None
    record, named = kept
    assert record._replace(body_crc=stored.body_crc) == stored
    told = stored.property_map()
    assert {name: told[name] for name in named} == named
    assert {"UNIQ_KEY", "PGROUP", "REAL_TOPIC", "REAL_QID"} <= named.keys()


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


def test_only_so_many_are_kept_and_the_latest_always():
    recent = RecentHalves()
    for position in range(3 * GENERATION_HALVES_MAX):
        recent.add(half(position))
    kept = [position for position in range(3 * GENERATION_HALVES_MAX) if recent.take(position) is not None]
    assert GENERATION_HALVES_MAX <= len(kept) <= 2 * GENERATION_HALVES_MAX
    assert kept[-1] == 3 * GENERATION_HALVES_MAX - 1


def test_large_ones_count_by_their_bytes():
    recent = RecentHalves()
    size = GENERATION_BYTES_MAX // 4
    for position in range(40):
        recent.add(half(position, size))
    recent.add(half(100, GENERATION_BYTES_MAX + 1))
    assert recent.take(100) is None
    assert sum(recent.take(position) is not None for position in range(40)) <= 10
