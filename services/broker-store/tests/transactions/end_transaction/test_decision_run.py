"""Ordinary decisions as one entry write the same bytes as the slow path, and leave everything else to it."""

import errno

import pytest
from sending_side import ScriptedPeer
from transactions_side import COMMIT, ROLLBACK, TransactionsSide

from broker_store.log.files.simulated_files import Fault
from broker_store.transactions.end_transaction import end_handler as ending
from broker_store.transactions.half_messages.recent_halves import RecentHalves
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.names import HALF_TOPIC

pytestmark = pytest.mark.anyio

SOURCE = (HALF_TOPIC, 0, "")
MESSAGES = ({}, {"TAGS": "a", "KEYS": "k1 k2"}, {"x": "ä"}, {"DELAY": "2"}, {"large": "v" * 32_300})


def ask_all(side, peer, halves, decisions, **more):
    for half, decision in zip(halves, decisions, strict=True):
        side.ask(peer, 37, side.end_header(half, decision), **more)


async def begun(side, peer, properties=MESSAGES):
    return [
        await side.begin(peer, f"U{n}", n % 3, body=b"m%d" % n, **own) for n, own in enumerate(properties)
    ]


async def lived(settings, ip):
    """Return the log, the answers and the recorded decisions of a life in which halves are decided repeatedly."""
    side, peer = TransactionsSide(**settings), ScriptedPeer(ip)
    for key in range(3):
        await side.begin(peer, f"R{key}", 1)
    halves = [reply.read(SendReplyHeader) for reply in peer.answers] + await begun(side, peer)
    decisions = [COMMIT, ROLLBACK, COMMIT, COMMIT, ROLLBACK, COMMIT, COMMIT, COMMIT]
    ask_all(side, peer, halves, decisions)
    await side.settled()
    ask_all(side, peer, halves, [COMMIT] * len(halves))
    await side.settled()
    table = side.sending.settling.table
    known = [table.decision(SOURCE, half.queue_offset) for half in halves]
    remembered = [(one.outputs, one.outcome, one.time_ms) for one in known]
    units = [side.queues.find("orders", n).read(0, 99) for n in range(3)]
    data = side.log.read_nowait(0, side.log.visible_end)
    assert data is not None
    return data, units, sorted(peer.answers, key=lambda answer: answer.opaque), remembered


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_both_paths_write_the_same_log_and_give_the_same_answers(flush, ip, monkeypatch):
    short = await lived({"flush": flush}, ip)
    monkeypatch.setattr(RecentHalves, "take", lambda *_: None)
    assert await lived({"flush": flush}, ip) == short, "by records that were read"
    monkeypatch.setattr(ending, "ordinary_half", lambda *_: None)
    assert await lived({"flush": flush}, ip) == short, "each by itself, planned"


async def test_a_half_decided_meanwhile_takes_the_slow_path():
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = await begun(side, peer, [{}, {}, {}])
    await side.check(peer, 1)
    before = len(peer.answers)
    ask_all(side, peer, halves, [COMMIT, COMMIT, ROLLBACK])
    await side.settled()
    assert [answer.code for answer in peer.answers[before:]] == [0, 0, 0]
    assert [record.body for record in side.records("orders", 1)] == [b"m1"], "on the newer copy"
    assert sorted(side.ops()) == [b"0", b"1", b"2", b"3"]


async def test_opposite_decisions_of_one_turn_from_two_clients_the_first_counts():
    side, peer, other = TransactionsSide(), ScriptedPeer(), ScriptedPeer(port=40_001)
    halves = await begun(side, peer, [{}, {}])
    ask_all(side, peer, halves, [COMMIT, ROLLBACK])
    ask_all(side, other, halves, [ROLLBACK, COMMIT])
    await side.settled()
    assert [answer.code for answer in peer.answers[-2:]] == [0, 0]
    assert [answer.ext["state"] for answer in other.answers] == ["committed", "rolledBack"]


async def test_a_full_disk_leaves_all_of_them_open_to_be_decided_again():
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = await begun(side, peer, [{}, {}])
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    ask_all(side, peer, halves, [COMMIT, COMMIT])
    await side.settled()
    assert {answer.code for answer in peer.answers[-2:]} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert not side.sending.settling.deciding
    assert side.queues.find("orders", 0).next_offset == 0
    side.log.mark_disk_full(full=False)
    ask_all(side, peer, halves, [ROLLBACK, COMMIT])
    await side.settled()
    assert [answer.code for answer in peer.answers[-2:]] == [0, 0]
    assert len(side.records("orders", 1)) == 1
    assert side.records("orders", 0) == []


async def test_a_missing_topic_delays_no_other():
    side, peer = TransactionsSide(), ScriptedPeer()
    side.topics.ensure("other", 1)
    gone = await side.begin(peer, "U1", 0, topic="other")
    stays = await side.begin(peer, "U2", 0)
    side.topics.delete("other")
    ask_all(side, peer, [gone, stays], [COMMIT, COMMIT])
    await side.settled()
    assert [answer.code for answer in peer.answers[-2:]] in (
        [ResponseCode.TOPIC_NOT_EXIST, 0],
        [0, ResponseCode.TOPIC_NOT_EXIST],
    )
    assert side.ops() == [b"1"]


async def test_decisions_survive_a_kill_each_once():
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = await begun(side, peer, [{}] * 12)
    ask_all(side, peer, halves[:9], [COMMIT, ROLLBACK, COMMIT] * 3, oneway=True)
    await side.settled()
    again = side.reopen()
    table = again.sending.settling.table
    assert [table.is_settled(SOURCE, n) for n in range(12)] == [True] * 9 + [False] * 3
    ask_all(again, peer, halves[:9], [COMMIT, ROLLBACK, COMMIT] * 3)
    await again.settled()
    assert {answer.code for answer in peer.answers[-9:]} == {0}
    assert sum(len(again.records("orders", n)) for n in range(3)) == 6
