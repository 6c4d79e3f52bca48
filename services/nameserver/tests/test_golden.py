"""Frames captured between RocketMQ 5.3.3's nameserver, its broker and clients: ours answers the same, byte for byte."""

from pathlib import Path

import pytest
from nameserver_parts import Desk
from registrations import holds, who

from gantry_wire.errors import RefusedRequest
from gantry_wire.frame import FrameDecoder, decode_command, encode_response
from nameserver.handlers import COMMANDS

FRAMES = Path(__file__).parents[3] / "tests/contracts/golden/frames"
TOPIC = {"read_queue_nums": 2, "write_queue_nums": 2}


def command(name):
    lines = FRAMES.joinpath(f"{name}.hex").read_text().splitlines()
    data = bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
    return decode_command(FrameDecoder().receive(data)[0])


def answer(desk, request):
    try:
        reply = COMMANDS[request.code](desk.commands, request, 1)
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
    desk = Desk()
    held = holds(GoldenTopic=TOPIC, BinaryTopic=TOPIC)
    desk.world.register(who(address="127.0.0.1:10911", acting_master=False), held)
    request, captured = command(f"{name}.request"), command(f"{name}.reply")
    ours = answer(desk, request)
    for field in ("code", "opaque", "flag", "version", "language", "ext", "remark", "body"):
        assert getattr(ours, field) == getattr(captured, field), field


def test_the_captured_registration_brings_the_brokers_topics():
    desk = Desk()
    assert answer(desk, command("register-103-json.request")).code == 0
    assert {"TBW102", "broker-a", "DefaultCluster"} <= desk.changes[0].topics
