"""Consecutive halves of one client: one entry of the group commit, with the results of single ones."""

import errno

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.files.simulated_files import Fault
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.messages.properties import index_key_hash
from gantry_wire.names import HALF_TOPIC

pytestmark = pytest.mark.anyio

HALF = {"TRAN_MSG": "true", "PGROUP": "pg"}


@pytest.fixture
async def side():
    side = SendingSide()
    side.topics.ensure("orders", 4)
    return side


def send_halves(side, peer, numbers, **more):
    for number in numbers:
        properties = {**HALF, "UNIQ_KEY": f"U{number}", "TAGS": "t", "KEYS": f"k{number} all", **more}
        side.send(peer, body=b"%d" % number, queue_id=number % 4, properties=properties)


def without_run(side, monkeypatch):
    """Prepare every half separately."""
    for way in ("_take_half", "_take_known_half"):
        monkeypatch.setattr(side.sending._sends, way, lambda *_: False)


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_a_run_stores_and_answers_as_single_halves_do(flush, monkeypatch):
    lives = []
    for is_run in (True, False):
        side, peer, other = SendingSide(flush=flush), ScriptedPeer(), ScriptedPeer("::1", 2)
        side.topics.ensure("orders", 4)
        if not is_run:
            without_run(side, monkeypatch)
        send_halves(side, peer, range(5))
        send_halves(side, other, range(5, 8))
        send_halves(side, peer, range(8, 9), WAIT="false")
        side.flush()
        units = side.queues.find(HALF_TOPIC, 0).read(0, 9)
        found = [
            side.store.index.lookup(index_key_hash(HALF_TOPIC, key), 0, 1 << 62, 16) for key in ("all", "U3")
        ]
        lives.append((side.records(HALF_TOPIC), units, found, peer.answers, other.answers))
    assert lives[0] == lives[1]
    assert len(lives[0][0]) == 9


async def test_halves_that_follow_each_other_wait_as_one_entry(side):
    peer = ScriptedPeer()
    side.topics.ensure("orders", 4)
    side.flush()
    send_halves(side, peer, range(5))
    assert len(side.appends._open) == 1
    assert side.appends.pending == 5
    side.flush()
    replies = [answer.read(SendReplyHeader) for answer in peer.answers]
    assert [(reply.queue_offset, reply.queue_id) for reply in replies] == [(n, n % 4) for n in range(5)]
    assert side.appends.pending == 0


async def test_nothing_is_visible_or_answered_before_the_flush(side):
    peer = ScriptedPeer()
    send_halves(side, peer, range(3))
    side.end_turn()
    assert side.records(HALF_TOPIC) == []
    assert not peer.answers


async def test_a_full_disk_takes_the_whole_run_back(side):
    peer = ScriptedPeer()
    send_halves(side, peer, range(2))
    side.flush()
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    send_halves(side, peer, range(2, 5), large="x" * 30_000)
    side.flush()
    assert {answer.code for answer in peer.answers[2:]} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert side.queues.find(HALF_TOPIC, 0).next_offset == 2
    assert len(side.records(HALF_TOPIC)) == 2


@pytest.mark.parametrize(
    "more", [{"DELAY": "1"}, {"UNIQ_KEY": 'a"b'}, {"__GANTRY_KEY": "once"}, {"TRAN_MSG": "TRUE"}]
)
async def test_a_half_that_is_not_ordinary_is_prepared_by_itself(side, more):
    peer = ScriptedPeer()
    send_halves(side, peer, range(2), **more)
    assert side.sending.halves._run is None
