import asyncio

import pytest
from command_harness import CommandHarness
from registrations import CLUSTER, broker_identity, holds

from gantry_chassis.metrics import Metrics
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder
from nameserver.remoting import Remoting

pytestmark = pytest.mark.anyio


class Channel:
    """The connection of a peer, as the handler sees it."""

    id = 7

    def __init__(self):
        self.sent = []

    def send(self, data):
        self.sent.append(decode_command(FrameDecoder().receive(data)[0]))


def make():
    harness, channel = CommandHarness(), Channel()
    remoting = Remoting(harness.commands, Metrics(), door=None, has_open_routes=False)

    def receive(frame):
        remoting.receive(channel, FrameDecoder().receive(frame)[0])

    return harness, channel, receive


async def test_a_request_is_answered_with_its_opaque():
    _, channel, receive = make()
    receive(encode_request(106, 42))
    assert (channel.sent[0].opaque, channel.sent[0].code) == (42, 0)


async def test_an_unknown_code_is_refused_in_the_text_of_rocketmq():
    _, _, receive = make()
    with pytest.raises(RefusedRequest) as refused:
        receive(encode_request(310, 1))
    assert (refused.value.code, refused.value.remark) == (3, " request type 310 not supported")


async def test_oneway_requests_and_stray_answers_get_no_reply():
    harness, channel, receive = make()
    receive(encode_request(100, 1, {"namespace": "n", "key": "k", "value": "v"}, oneway=True))
    receive(encode_request(106, 2, oneway=True))
    receive(encode_response(106, 3))
    await asyncio.sleep(0.01)
    assert channel.sent == []
    assert harness.commands.kv.get("n", "k") == "v"


async def test_a_value_is_answered_after_it_is_on_disk():
    harness, channel, receive = make()
    writes = []
    harness.kv_keeper.write = lambda _content: (
        writes.append(asyncio.get_running_loop().create_future()) or writes[0]
    )
    receive(encode_request(100, 1, {"namespace": "n", "key": "k", "value": "v"}))
    await asyncio.sleep(0.01)
    assert channel.sent == []
    writes[0].set_result(None)
    await asyncio.sleep(0.01)
    assert channel.sent[0].code == 0


async def test_a_failed_write_is_not_answered_as_success():
    harness, channel, receive = make()
    harness.kv_keeper.failure = OSError(28, "No space left on device")
    receive(encode_request(100, 1, {"namespace": "n", "key": "k", "value": "v"}))
    await asyncio.sleep(0.01)
    assert channel.sent[0].code == 1
    assert "not on disk: [Errno 28] No space left on device" in channel.sent[0].remark


async def test_a_request_for_a_living_broker_from_elsewhere_is_logged_with_its_address(monkeypatch):
    said = []

    class Log:
        def warning(self, message, **fields):
            said.append((message, fields))

    class Elsewhere(Channel):
        id = 8
        remote = ("10.0.0.9", 4711)

    monkeypatch.setattr("nameserver.remoting._log", Log())
    harness, _, receive = make()
    register(harness, "10.0.0.1:10911", 7)
    frame = encode_request(
        104,
        1,
        {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": CLUSTER, "brokerId": "0"},
    )
    with pytest.raises(RefusedRequest, match="only that one can unregister it"):
        Remoting(harness.commands, Metrics(), door=None, has_open_routes=False).receive(
            Elsewhere(), FrameDecoder().receive(frame)[0]
        )
    ((message, fields),) = said
    assert message == "refused a request for a living broker from another connection"
    assert fields["peer"] == "10.0.0.9:4711"
    receive(frame)


def register(harness, address, channel):
    harness.commands.registry.register(broker_identity(address=address), holds("A", "B"), channel, 1_000)
