"""Requests of brokers to the client, and their answers."""

import pytest
from scripted_cluster import eventually

from gantry_wire.bodies.clients import ConsumerData, HeartbeatData
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.frame_stream import FrameDecoder
from gantrymq.connection.members import Members
from gantrymq.connection.pushes import Pushes, PushReply
from gantrymq.errors import ConfigurationError

pytestmark = pytest.mark.anyio


class Broker:
    """The broker's end: what was sent back over its connection."""

    address = "10.0.0.1:10911"

    def __init__(self):
        self.frames = b""

    def send(self, frame):
        self.frames += frame

    @property
    def answers(self):
        return list(map(decode_command, FrameDecoder().receive(self.frames)))


def request(code, *, oneway=False):
    return Command(code=code, opaque=7, flag=2 if oneway else 0)


async def test_a_handler_answers_its_code_and_no_other():
    pushes, broker = Pushes(), Broker()
    pushes.on(307, lambda command, address: PushReply(body=f"{command.code} from {address}".encode()))
    pushes.receive(broker, request(307))
    pushes.receive(broker, request(999))
    first, second = broker.answers
    assert (first.code, first.opaque, first.body) == (0, 7, b"307 from 10.0.0.1:10911")
    assert (second.code, second.remark) == (3, "request type 999 not supported")


async def test_a_slow_handler_answers_when_it_is_done():
    pushes, broker = Pushes(), Broker()

    async def slowly(_command, _address):
        return PushReply(code=5)

    pushes.on(309, slowly)
    pushes.receive(broker, request(309))
    assert not broker.answers
    await eventually(lambda: broker.answers)
    assert broker.answers[0].code == 5
    await pushes.close()


async def test_a_failing_handler_reports_to_the_broker_and_one_way_requests_get_no_answer():
    pushes, broker = Pushes(), Broker()

    def fail(_command, _address):
        raise ValueError("no")

    async def fail_later(_command, _address):
        raise ValueError("later")

    pushes.on(1, fail)
    pushes.on(2, fail_later)
    pushes.receive(broker, request(1))
    pushes.receive(broker, request(2))
    await eventually(lambda: len(broker.answers) == 2)
    assert [(answer.code, answer.remark) for answer in broker.answers] == [
        (1, "ValueError: no"),
        (1, "ValueError: later"),
    ]
    pushes.receive(broker, request(1, oneway=True))
    pushes.receive(broker, request(999, oneway=True))
    assert len(broker.answers) == 2


def test_groups_have_one_member_of_a_kind_and_are_in_the_heartbeat():
    members = Members()
    assert members.heartbeat("me") is None

    class Consumer:
        def heartbeat(self):
            return ConsumerData(group_name="c")

    producer, consumer = object(), Consumer()
    members.add_producer("p", producer)
    members.add_consumer("c", consumer)
    members.add_consumer("p", consumer)  # a producer's name may be a consumer's too
    with pytest.raises(ConfigurationError, match="group p already has a producer"):
        members.add_producer("p", object())
    with pytest.raises(ConfigurationError, match="group c already has a consumer"):
        members.add_consumer("c", object())
    said = decode_body(encode_body(members.heartbeat("me")), HeartbeatData)
    assert [data.group_name for data in said.producer_data_set] == ["p"]
    assert [data.group_name for data in said.consumer_data_set] == ["c", "c"]
    assert members.remove("p", object()) == (None, None)
    assert members.remove("p", producer) == ("p", None)
    assert members.remove("p", consumer) == (None, "p")
