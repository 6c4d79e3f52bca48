"""Decisions in the group commit: a batch that waited too long refuses its sends but carries out its decisions."""

import pytest
from sending_side import ScriptedPeer
from transactions_side import TransactionsSide

pytestmark = pytest.mark.anyio


async def test_a_batch_that_waited_too_long_refuses_its_sends_and_keeps_its_decisions():
    side, peer, late = TransactionsSide(), ScriptedPeer(), ScriptedPeer(port=40_001)
    half = await side.begin(peer)
    side.ask(peer, 37, side.end_header(half), oneway=True)
    side.send(late, "orders", b"late", 1)
    side.pass_time(1)
    await side.settled()
    assert late.answers[0].code == 2
    assert "TIMEOUT_CLEAN_QUEUE" in late.answers[0].remark
    assert [record.body for record in side.records("orders", 2)] == [b"pay"]
    assert side.records("orders", 1) == []


async def test_decisions_that_come_after_a_flush_belong_to_the_next_entry():
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = [await side.begin(peer, f"U{n}") for n in range(4)]
    for half in halves:
        side.ask(peer, 37, side.end_header(half), oneway=True)
        side.end_turn()
    await side.settled()
    assert len(side.records("orders", 2)) == 4
    assert side.ops() == [b"0", b"1", b"2", b"3"]
