"""A late turn refuses the sends that waited in it, whose clients retry.

The store's own entries are carried out: nobody repeats them.
"""

from itertools import product

import pytest
from sending_side import ScriptedPeer, SendingSide
from settling_side import SettlingSide, deliver

from broker_store.commit.message import Mode
from broker_store.leases.note_bodies import ACKS_TOPIC, LeaseNote, encode_note
from broker_store.state_records.state_record import StateRecord
from gantry_wire.errors import RefusedRequest

pytestmark = pytest.mark.anyio
LATE_S = 0.201


def note_of_leases(side: SendingSide, answers: list[object]) -> None:
    side.topics.ensure(ACKS_TOPIC, 1)
    queue = side.queues.open(ACKS_TOPIC, 0)
    host = side.appends.store_host
    note = StateRecord(
        queue,
        encode_note(LeaseNote("g", "orders")),
        Mode.SYNC,
        0,
        host,
        lambda _position: None,
        answers.append,
    )
    side.appends.enqueue(note)


def sample_of_offsets(side: SendingSide, answers: list[object]) -> None:
    side.sending.internal.append("GANTRY_SYS_OFFSETS", 0, b"{}")
    answers.append(None)


def deletion_of_a_topic(side: SendingSide, answers: list[object]) -> None:
    config = side.topics.ensure("gone", 1)
    side.sending.removal.remove(config, [].append)
    answers.append(None)


OWN = {
    "note": (note_of_leases, ACKS_TOPIC),
    "sample": (sample_of_offsets, "GANTRY_SYS_OFFSETS"),
    "deletion": (deletion_of_a_topic, "GANTRY_SYS_SEGMENT"),
}


@pytest.mark.parametrize(("own", "is_first"), list(product(OWN, (True, False))))
async def test_the_stores_own_entries_are_never_refused_as_late(own, is_first):
    side, peer, answers = SendingSide(), ScriptedPeer(), []
    append, topic = OWN[own]
    before = len(side.records(topic))
    if is_first:
        append(side, answers)
    side.send(peer)
    if not is_first:
        append(side, answers)
    side.pass_time(LATE_S)
    side.flush()
    assert "TIMEOUT_CLEAN_QUEUE" in peer.answers[0].remark
    assert side.records() == []
    assert answers == [None]
    assert len(side.records(topic)) > before
    assert side.classes["send"].in_flight == 0


async def test_a_decision_about_a_delayed_message_is_carried_out_however_late_its_turn_comes():
    side, peer, results = SettlingSide(), ScriptedPeer(), []
    side.topics.ensure("orders", 4)
    side.delayed(peer, b"due")
    side.pass_time(2)
    item = side.item(0, deliver())
    side.send(peer, body=b"late", queue_id=1)
    side.settling.settle("SCHEDULE_TOPIC_XXXX", 0, "", None, [item], results.append)
    side.pass_time(LATE_S)
    side.flush()
    assert not isinstance(results[0], RefusedRequest)
    assert results[0][0].status == "settled"
    assert [record.body for record in side.records("orders", 0)] == [b"due"]
    assert side.records("orders", 1) == []
