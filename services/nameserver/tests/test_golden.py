"""Replays frames captured between RocketMQ 5.3.3's nameserver, broker and clients; our replies match byte for byte."""

from pathlib import Path

import pytest
from command_harness import CommandHarness
from registrations import broker_identity, holds

from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.frames.frame_stream import FrameDecoder
from nameserver.handlers import COMMANDS

FRAMES = Path(__file__).parents[3] / "tests/contracts/golden/frames"
TOPIC = {"read_queue_nums": 2, "write_queue_nums": 2}


def command(name):
    lines = FRAMES.joinpath(f"{name}.hex").read_text().splitlines()
    data = bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
    return decode_command(FrameDecoder().receive(data)[0])


def answer(harness, request):
    try:
        reply = COMMANDS[request.code](harness.commands, request, 1)
        frame = encode_response(0, request.opaque, reply.header, reply.body)
    except RefusedRequest as refused:
        frame = encode_response(refused.code, request.opaque, remark=refused.remark)
    return decode_command(FrameDecoder().receive(frame)[0])


@pytest.mark.parametrize(
    "name",
    [
        "register-103-json",
        "route-105-accept-standard",
        "route-105-old-json",
        "route-105-standard-json",
        "route-105-unknown",
        "binary-route-105",
        "binary-route-105-unknown",
        "cluster-106",
        "unregister-104",
    ],
)
def test_a_captured_request_gets_the_captured_reply(name):
    harness = CommandHarness()
    held = holds(GoldenTopic=TOPIC, BinaryTopic=TOPIC)
    harness.core.register(broker_identity(address="127.0.0.1:10911", acting_master=False), held)
    request, captured = command(f"{name}.request"), command(f"{name}.reply")
    ours = answer(harness, request)
    for field in ("code", "opaque", "flag", "version", "language", "ext", "remark", "body"):
        assert getattr(ours, field) == getattr(captured, field), field


def test_the_captured_registration_brings_the_topics_of_the_broker():
    harness = CommandHarness()
    assert answer(harness, command("register-103-json.request")).code == 0
    assert {"TBW102", "broker-a", "DefaultCluster"} <= harness.changes[0].topics
