import pytest
from sending_side import ScriptedPeer, SendingSide, send_header

from gantry_wire.bodies import SubscriptionGroupConfig
from gantry_wire.codes import RequestCode, ResponseCode

pytestmark = pytest.mark.anyio
RETRY, DEAD = "%RETRY%g", "%DLQ%g"


@pytest.fixture
async def side():
    side = SendingSide()
    side.sending.retries.find_group = lambda name: (
        SubscriptionGroupConfig(group_name=name, retry_max_times=3) if name == "g" else None
    )
    return side


def send(side, reconsume_times, maximum=None, version=479, properties="UNIQ_KEY\x01U\x02"):
    from gantry_wire.frame import FrameDecoder, encode_request

    peer = ScriptedPeer()
    header = send_header(
        RETRY, reconsume_times=reconsume_times, max_reconsume_times=maximum, properties=properties
    )
    frame = encode_request(RequestCode.SEND_MESSAGE_V2, 1, header, b"again")
    raw = FrameDecoder().receive(frame.replace(b'"version":479', b'"version":%03d' % version))[0]
    side.receive(peer, raw)
    side.flush()
    return peer.answers[0]


async def test_a_message_comes_again_until_its_tries_are_used_up(side):
    assert send(side, 3).code == 0
    assert len(side.records(RETRY)) == 1
    assert send(side, 4).code == 0
    assert [record.body for record in side.records(DEAD)] == [b"again"]
    dead = side.topics.find(DEAD)
    assert (dead.write_queue_nums, dead.perm) == (1, 6)


async def test_a_client_that_says_how_often_is_heard(side):
    send(side, 2, maximum=1)
    assert len(side.records(DEAD)) == 1


async def test_an_old_client_is_not_asked(side):
    send(side, 2, maximum=1, version=120)
    assert side.records(DEAD) == []


async def test_a_dead_letter_is_not_delayed_any_more(side):
    answer = send(side, 9, properties="DELAY\x015\x02UNIQ_KEY\x01U\x02")
    assert answer.code == 0
    assert side.records(DEAD)[0].property_map()["DELAY"] == "-1"


async def test_a_delayed_retry_waits_for_a_later_version(side):
    assert send(side, 1, properties="DELAY\x015\x02").code == ResponseCode.MESSAGE_ILLEGAL
