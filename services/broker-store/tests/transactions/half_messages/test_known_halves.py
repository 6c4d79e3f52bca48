"""Halves stored by their shape have the same bytes as parsed ones, and only where nothing but the unique key differs."""

import pytest
from sending_side import ScriptedPeer, SendingSide

from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.names import HALF_TOPIC

pytestmark = pytest.mark.anyio

HALF = {"TRAN_MSG": "true", "UNIQ_KEY": "", "PGROUP": "pg", "WAIT": "true"}


def lived(monkeypatch, *, by_shape: bool, flush: str):
    side, peer = SendingSide(flush=flush), ScriptedPeer()
    side.topics.ensure("orders", 4)
    taken: list[bool] = []
    known = side.sending.halves.take_known

    def counted(*arguments):
        taken.append(by_shape and known(*arguments))
        return taken[-1]

    monkeypatch.setattr(side.sending._sends, "_take_known_half", counted)
    for number in range(6):
        for more in ({}, {"TAGS": "t", "KEYS": "k"}, {"x": str(number)}, {"WAIT": "false"}):
            named = {**HALF, "UNIQ_KEY": f"U{number}", **more}
            side.send(
                peer, body=b"%d" % number, queue_id=1, properties=named, sys_flag=4 + number % 2, flag=number
            )
        side.flush()
    return side.records(HALF_TOPIC), peer.answers, taken


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_a_half_by_its_shape_is_stored_and_answered_as_one_that_was_read(monkeypatch, flush):
    shaped = lived(monkeypatch, by_shape=True, flush=flush)
    read = lived(monkeypatch, by_shape=False, flush=flush)
    assert shaped[:2] == read[:2]
    assert shaped[2].count(True) == 3 * 4, (
        "from the third of a kind on; those with a property of their own never"
    )


async def test_a_changed_topic_is_checked_again():
    side, peer = SendingSide(), ScriptedPeer()
    side.topics.ensure("orders", 4)

    def send(number):
        side.send(peer, queue_id=3, properties={**HALF, "UNIQ_KEY": f"U{number}"}, sys_flag=4)
        side.flush()

    for number in range(3):
        send(number)
    side.topics.delete("orders")
    side.topics.ensure("orders", 1)
    send(3)
    assert [answer.code for answer in peer.answers[:3]] == [0, 0, 0]
    assert peer.answers[3].code != 0, "it has no queue 3 any more"


@pytest.mark.parametrize("odd", [{"XUNIQ_KEY": "U1"}, {"copy": "U2"}])
async def test_the_unique_key_elsewhere_among_the_properties_makes_no_shape(odd):
    side, peer = SendingSide(), ScriptedPeer()
    side.topics.ensure("orders", 4)
    for number in range(5):
        side.send(peer, queue_id=0, properties={**odd, **HALF, "UNIQ_KEY": f"U{number}"}, sys_flag=4)
    side.flush()
    records = side.records(HALF_TOPIC)
    named = [record.property_map() for record in records]
    assert [own["UNIQ_KEY"] for own in named] == [own["__transactionId__"] for own in named]
    assert [answer.read(SendReplyHeader).transaction_id for answer in peer.answers] == [
        own["UNIQ_KEY"] for own in named
    ]
    assert len({own["UNIQ_KEY"] for own in named}) == 5
