import asyncio

import pytest
from sending_side import ScriptedPeer, SendingSide

from gantry_wire.bodies.cluster import TopicConfig, TopicConfigList, TopicConfigSerializeWrapper
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.admin import AllTopicConfigReplyHeader, CreateTopicHeader

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side():
    return SendingSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


async def saved(side):
    await side.save_topics()
    await asyncio.sleep(0)


def header(topic="orders", queues=4, **more):
    return CreateTopicHeader(topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6, **more)


async def test_a_topic_is_answered_once_it_is_on_disk(side, peer):
    side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC, header(attributes="+gantry.flush=async"))
    assert peer.answers == []
    await saved(side)
    assert peer.answers[0].code == 0
    assert side.reopen().topics.find("orders").attributes == {"gantry.flush": "async"}


async def test_a_change_keeps_attributes_and_takes_effect_at_the_next_send(side, peer):
    side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC, header(attributes="+message.type=FIFO"))
    side.send(peer, queue_id=3)
    side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC, header(queues=2))
    side.send(peer, queue_id=3)
    assert peer.answers[-1].code == ResponseCode.INVALID_PARAMETER
    assert side.topics.find("orders").attributes == {"message.type": "FIFO"}
    side.flush()
    assert len(side.records(queue_id=3)) == 1


async def test_the_same_again_changes_no_version(side, peer):
    side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC, header())
    version = side.topics.version.value
    side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC, header())
    await saved(side)
    assert side.topics.version.value == version
    assert [answer.code for answer in peer.answers] == [0, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        header("a b"),
        header("TBW102"),
        header("GANTRY_SYS_X"),
        header(queues=-1),
        header(queues=70_000),
        header(topic_filter_type="MANY"),
        header(attributes="nonsense"),
        CreateTopicHeader(topic="orders", read_queue_nums=1, write_queue_nums=1, perm=8),
    ],
)
async def test_a_wrong_topic_answers_29_and_changes_nothing(side, peer, wrong):
    names = side.topics.names()
    side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC, wrong)
    assert peer.answers[0].code == ResponseCode.INVALID_PARAMETER
    assert side.topics.names() == names


async def test_a_list_is_taken_whole_or_not_at_all(side, peer):
    good, bad = TopicConfig(topic_name="good"), TopicConfig(topic_name="TBW102")
    side.ask(
        peer,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        None,
        encode_body(TopicConfigList(topic_config_list=[good, bad])),
    )
    assert peer.answers[0].code == ResponseCode.INVALID_PARAMETER
    assert side.topics.find("good") is None
    side.ask(
        peer,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        None,
        encode_body(TopicConfigList(topic_config_list=[good])),
    )
    await saved(side)
    assert peer.answers[1].code == 0
    assert side.topics.find("good") is not None


async def test_attributes_of_a_list_are_changes_and_checked(side, peer):
    def put(attributes):
        topic = TopicConfig(topic_name="listed", attributes=attributes)
        body = encode_body(TopicConfigList(topic_config_list=[topic]))
        side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, body)

    put({"+gantry.flush": "async", "+message.type": "FIFO"})
    put({"-gantry.flush": ""})
    put({"+cleanup.policy": "COMPACTION"})
    assert side.topics.find("listed").attributes == {"message.type": "FIFO"}
    assert peer.answers[0].code == ResponseCode.INVALID_PARAMETER
    remark = "topic listed: attribute cleanup.policy=COMPACTION: write DELETE"
    assert peer.answers[0].remark == remark


async def test_all_topics_are_listed_without_internal_ones(side, peer):
    side.topics.ensure("orders", 3)
    side.ask(peer, RequestCode.GET_ALL_TOPIC_CONFIG)
    wrapper = decode_body(peer.answers[0].body, TopicConfigSerializeWrapper)
    assert wrapper.topic_config_table["orders"].write_queue_nums == 3
    assert not any(name.startswith("GANTRY_SYS_") for name in wrapper.topic_config_table)
    assert peer.answers[0].read(AllTopicConfigReplyHeader).total_topic_num == len(wrapper.topic_config_table)
    assert wrapper.data_version == side.topics.version.value


async def test_topics_come_in_pages(side, peer):
    side.ask(peer, RequestCode.GET_ALL_TOPIC_CONFIG, {"topicSeq": "2", "maxTopicNum": "3"})
    names = list(decode_body(peer.answers[0].body, TopicConfigSerializeWrapper).topic_config_table)
    assert names == sorted(name for name in side.topics.names() if not side.topics.is_internal(name))[2:5]


async def test_one_topic_is_returned_or_17(side, peer):
    side.topics.ensure("orders", 3)
    side.ask(peer, RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"})
    side.ask(peer, RequestCode.GET_TOPIC_CONFIG, {"topic": "none"})
    side.ask(peer, RequestCode.GET_TOPIC_CONFIG, {"topic": "GANTRY_SYS_SEGMENT"})
    assert decode_body(peer.answers[0].body, TopicConfig).topic_name == "orders"
    assert [answer.code for answer in peer.answers] == [0, 17, 17]


async def test_system_topics_cannot_be_deleted(side, peer):
    for name in ("TBW102", "DefaultCluster", "GANTRY_SYS_SEGMENT"):
        side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
    assert [answer.code for answer in peer.answers] == [ResponseCode.INVALID_PARAMETER] * 3


async def test_deleting_an_unknown_topic_is_no_error(side, peer):
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "none"})
    assert peer.answers[0].code == 0
    assert side.log.end == 0


async def test_a_deletion_that_cannot_be_logged_leaves_the_topic(side, peer):
    import errno

    from broker_store.log.files.simulated_files import Fault

    side.send(peer)
    side.flush()
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    side.end_turn()
    assert peer.answers[-1].code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert side.topics.find("orders") is not None
    assert len(side.records()) == 1
