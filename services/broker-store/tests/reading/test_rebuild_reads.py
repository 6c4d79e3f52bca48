import pytest

from broker_store.reading.rebuild_reads import WHOLE, rebuild_commands
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import PullHeader


class Half:
    max_offset = 10


def table():
    serving = {
        code: ("pull", lambda _peer, _command: b"served")
        for code in (
            RequestCode.PULL_MESSAGE,
            RequestCode.GET_MAX_OFFSET,
            RequestCode.HEART_BEAT,
            RequestCode.SEND_MESSAGE_V2,
        )
    }
    return rebuild_commands(serving, lambda topic, _queue_id: Half() if topic == "orders" else None)


def pull(topic: str, offset: int) -> Command:
    header = PullHeader(
        consumer_group="g", topic=topic, queue_id=0, queue_offset=offset, max_msg_nums=1, sys_flag=0
    )
    return Command(code=11, fields=header)


def test_rebuilt_messages_are_served():
    assert table()[RequestCode.PULL_MESSAGE][1](None, pull("orders", 9)) == b"served"


@pytest.mark.parametrize(("topic", "offset"), [("orders", 10), ("orders", 1000), ("none", 0)])
def test_a_pull_of_what_is_not_rebuilt_yet_never_gets_a_wrong_offset(topic, offset):
    with pytest.raises(RefusedRequest) as refused:
        table()[RequestCode.PULL_MESSAGE][1](None, pull(topic, offset))
    assert refused.value.code == ResponseCode.SYSTEM_BUSY


@pytest.mark.parametrize("code", [RequestCode.GET_MAX_OFFSET, RequestCode.SEND_MESSAGE_V2])
def test_requests_that_need_every_queue_are_refused(code):
    assert code not in WHOLE
    with pytest.raises(RefusedRequest) as refused:
        table()[code][1](None, Command())
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_clients_stay_registered():
    assert table()[RequestCode.HEART_BEAT][1](None, Command()) == b"served"
