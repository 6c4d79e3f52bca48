"""The command table: which handler serves which code, and how many one-way requests one turn carries out."""

import asyncio

import pytest

from broker_store.requests import command_table as commands
from broker_store.requests.command_table import CommandTable
from broker_store.requests.request_classes import request_classes
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder

pytestmark = pytest.mark.anyio


class SilentPeer:
    def __init__(self):
        self.sent = []

    def send(self, data):
        self.sent.append(data)


@pytest.fixture
def flooded(monkeypatch):
    monkeypatch.setattr(commands, "ONEWAY_PER_TURN_MAX", 3)
    classes, handled = request_classes(), []

    def handle(_peer, command):
        handled.append(command.code)
        return b"answer"

    table = CommandTable(classes, None, None)
    table.add_all(
        {
            RequestCode.UPDATE_CONSUMER_OFFSET: ("consumerManager", handle),
            RequestCode.HEART_BEAT: ("heartbeat", handle),
            RequestCode.SEND_MESSAGE_V2: ("send", handle),
        }
    )
    return table, classes, handled


def receive(table, peer, code, count, *, oneway):
    frames = b"".join(encode_request(code, n, {}, oneway=oneway) for n in range(count))
    for raw in FrameDecoder().receive(frames):
        table.receive(peer, raw)


async def test_a_flood_of_oneway_requests_is_cut_by_class_and_turn_and_counted(flooded):
    table, classes, handled = flooded
    peer = SilentPeer()
    receive(table, peer, RequestCode.UPDATE_CONSUMER_OFFSET, 5, oneway=True)
    receive(table.without([]), peer, RequestCode.HEART_BEAT, 3, oneway=True)
    assert handled == [RequestCode.UPDATE_CONSUMER_OFFSET] * 3 + [RequestCode.HEART_BEAT] * 3
    assert (classes["consumerManager"].oneway_dropped, classes["heartbeat"].oneway_dropped) == (2, 0)
    for _ in range(3):
        await asyncio.sleep(0)  # the next turn
    receive(table, peer, RequestCode.UPDATE_CONSUMER_OFFSET, 1, oneway=True)
    assert handled[-1] == RequestCode.UPDATE_CONSUMER_OFFSET
    assert peer.sent == []


async def test_requests_that_are_answered_and_sends_are_not_cut(flooded):
    table, classes, handled = flooded
    peer = SilentPeer()
    receive(table, peer, RequestCode.UPDATE_CONSUMER_OFFSET, 9, oneway=False)
    receive(table, peer, RequestCode.SEND_MESSAGE_V2, 9, oneway=True)
    assert len(handled) == 18
    assert len(peer.sent) == 9
    assert not any(requests.oneway_dropped for requests in classes.values())


async def test_an_error_of_the_disk_is_a_refusal_and_no_bug():
    def handle(_peer, _command):
        raise OSError(5, "Input/output error", "/store/consumequeue/T/0")

    table = CommandTable(request_classes(), None, None)
    table.add_all({RequestCode.GET_MIN_OFFSET: ("adminBroker", handle)})
    with pytest.raises(RefusedRequest) as refused:
        receive(table, SilentPeer(), RequestCode.GET_MIN_OFFSET, 1, oneway=False)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert "/store/consumequeue/T/0" in str(refused.value)
