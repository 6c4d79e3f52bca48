"""Pulls from request to reply: checks in order, holding, waking, expiry, offsets on the way."""

import asyncio
from dataclasses import replace

import msgspec
import pytest
from memory_store import MemoryPeer, bodies_of
from reading_side import COMMIT, SUSPEND, WITH_SUBSCRIPTION, ReadingSide, pull_fields, pull_held

from broker_store.ports import ADMITTED
from gantry_guard import callers
from gantry_wire.bodies.clients import ConsumerData, HeartbeatData, MessageModel, SubscriptionData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.headers.messages import PullReplyHeader
from gantry_wire.names import GATEWAY_GROUP

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


def heartbeat(topic="orders", *, expression="*", version=1, model=MessageModel.CLUSTERING, kind="TAG"):
    subscription = SubscriptionData(
        topic=topic, sub_string=expression, sub_version=version, expression_type=kind
    )
    consumer = ConsumerData(group_name="readers", message_model=model, subscription_data_set=[subscription])
    return encode_body(HeartbeatData(client_id="c1", consumer_data_set=[consumer]))


async def test_a_reply_is_the_logs_own_bytes_with_all_its_offsets(side):
    for number in range(3):
        side.put(b"m%d" % number)
    reply = await side.ask(11, pull_fields(1))
    header = reply.read(PullReplyHeader)
    assert reply.code == ResponseCode.SUCCESS
    assert reply.remark == "FOUND"
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (3, 0, 3)
    assert header.suggest_which_broker_id == 0
    assert reply.body in bytes(side.store.log.data)
    assert bodies_of(reply.body) == [b"m1", b"m2"]


async def test_rocketmqs_limit_holds_unless_the_client_wants_more(side):
    for number in range(40):
        side.put(b"%d" % number)
    asked = pull_fields(maxMsgNums=100)
    assert len(bodies_of((await side.ask(11, asked)).body)) == 32
    assert len(bodies_of((await side.ask(11, {**asked, "gantryWide": "true"})).body)) == 40


async def test_lite_pull_is_the_same_request(side):
    side.put(b"m")
    assert bodies_of((await side.ask(361, pull_fields())).body) == [b"m"]


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        ({"consumerGroup": "not a group"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "does not exist"),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST, "topic[nowhere] not exist, apply first please!"),
        ({"queueId": 4}, ResponseCode.INVALID_PARAMETER, "queueId[4] is illegal"),
        ({"queueId": -1}, ResponseCode.INVALID_PARAMETER, "queueId[-1] is illegal"),
        ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription"),
        ({"expressionType": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "column 1: expected a name"),
        ({"expressionType": "XPATH"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "use TAG or SQL92"),
        ({"sysFlag": 12}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "filtering by class is not supported"),
        ({"sysFlag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist"),
    ],
)
async def test_a_refused_pull_says_why(side, changes, code, remark):
    reply = await side.ask(11, pull_fields(**changes))
    assert reply.code == code
    assert remark in (reply.remark or "")


async def test_permissions_are_checked_from_the_broker_down_to_the_topic(side):
    side.settings.broker_permission = 2
    assert "the broker[127.0.0.1]" in ((await side.ask(11, pull_fields())).remark or "")
    side.settings.broker_permission = 6
    side.consuming.groups.find_or_create("readers")
    side.consuming.groups.set_consume_enable("readers", enable=False)
    reply = await side.ask(11, pull_fields(topic="nowhere"))  # the group is checked before the topic
    assert (reply.code, reply.remark) == (
        ResponseCode.NO_PERMISSION,
        "subscription group no permission, readers",
    )
    side.consuming.groups.set_consume_enable("readers", enable=True)
    side.store.topics.find("orders").perm = 2
    reply = await side.ask(11, pull_fields(queueId=99))  # the topic before the queue
    assert (reply.code, reply.remark) == (
        ResponseCode.NO_PERMISSION,
        "the topic[orders] pulling message is forbidden",
    )


@pytest.mark.parametrize("group", ["readers", GATEWAY_GROUP])
async def test_internal_topics_are_read_by_pulls_for_no_group_only_whatever_group_they_name(side, group):
    side.store.topics.ensure("GANTRY_SYS_PROBE", 1, 6)
    side.put(b"probe", topic="GANTRY_SYS_PROBE")
    fields = pull_fields(topic="GANTRY_SYS_PROBE", consumerGroup=group)
    assert (await side.ask(11, fields)).code == ResponseCode.NO_PERMISSION
    assert (await side.ask(11, {**fields, "gantryBrowse": "false"})).code == ResponseCode.NO_PERMISSION
    assert bodies_of((await side.ask(11, {**fields, "gantryBrowse": "true"})).body) == [b"probe"]


@pytest.mark.parametrize("ours", [{}, {"gantryWide": "true"}, {"gantryBrowse": "true"}])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"maxMsgNums": 100},
        {"maxMsgNums": 5000, "offset": 3},
        {"offset": 50},
        {"offset": 51},
        {"offset": -1},
        {"topic": "GANTRY_SYS_PROBE"},
        {"topic": "nowhere"},
        {"topic": "closed"},
        {"queueId": 9},
        {"subscription": "red"},
        {"expressionType": "SQL92", "subscription": "TAGS = 'red'", "maxMsgNums": 100},
        {"sysFlag": 0},
        {"sysFlag": 12},
    ],
)
async def test_the_name_of_the_gateways_opens_nothing_that_another_group_may_not_have(side, changes, ours):
    side.store.topics.ensure("GANTRY_SYS_PROBE", 1, 6)
    side.store.topics.ensure("closed", 4, 2)
    for topic in ("orders", "GANTRY_SYS_PROBE", "closed"):
        for number in range(50):
            side.put(b"%d" % number, topic=topic, tags="red" if number % 2 else "blue")
    answers = []
    for group in ("TOOLS_CONSUMER", GATEWAY_GROUP):
        side.store.internal.clear()
        reply = await side.ask(11, pull_fields(**changes, **ours, consumerGroup=group))
        moved = [event[0] for event in side.store.internal]
        answers.append((reply.code, (reply.remark or "").replace(group, "G"), reply.ext, reply.body, moved))
    assert answers[0] == answers[1]


async def test_a_pull_for_no_group_needs_none_makes_none_and_leaves_no_trace_of_one(side):
    side.put(b"m")
    fields = pull_fields(0, commitOffset=7, sysFlag=WITH_SUBSCRIPTION | COMMIT, gantryBrowse="true")
    side.consuming.groups.set_auto_create(enable=False)
    assert (await side.ask(11, {**fields, "consumerGroup": "unknown"})).code == ResponseCode.SUCCESS
    side.consuming.groups.set_auto_create(enable=True)
    side.consuming.resets.assign("readers", "orders", 0, 5)
    assert bodies_of((await side.ask(11, fields)).body) == [b"m"]
    assert "readers" not in side.consuming.groups.names()
    assert side.consuming.offsets.find("readers", "orders", 0) is None
    assert (await side.ask(11, pull_fields(9, gantryBrowse="true"))).code == ResponseCode.PULL_OFFSET_MOVED
    assert side.store.internal == []
    assert side.consuming.resets.is_pending("readers", "orders", 0)


@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
async def test_a_pull_for_no_group_uses_nothing_of_the_group_that_it_names(side, kind):
    expression = "red" if kind == "TAG" else "TAGS = 'red'"
    await side.ask(34, body=heartbeat(expression=expression, kind=kind))
    side.put(b"red one", tags="red")
    side.put(b"blue one", tags="blue")
    fields = pull_fields(0, sysFlag=0, subVersion=1)
    assert bodies_of((await side.ask(11, fields)).body) == [b"red one"]
    for group in ("readers", "unknown"):
        reply = await side.ask(11, {**fields, "gantryBrowse": "true", "consumerGroup": group})
        assert bodies_of(reply.body) == [b"red one", b"blue one"]


async def test_without_its_own_subscription_a_pull_uses_that_of_the_heartbeat(side):
    side.put(b"r", tags="red")
    side.put(b"b", tags="blue")
    await side.ask(34, body=heartbeat(expression="blue", version=5))
    assert bodies_of((await side.ask(11, pull_fields(sysFlag=0, subVersion=5))).body) == [b"b"]
    reply = await side.ask(11, pull_fields(sysFlag=0, subVersion=6))
    assert reply.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    await side.ask(34, body=heartbeat("other"))
    reply = await side.ask(11, pull_fields(sysFlag=0))
    assert (reply.code, reply.remark.split(",")[0]) == (24, "the consumer's subscription not exist")


async def test_a_group_that_may_not_broadcast_is_refused_when_it_does(side):
    await side.ask(34, body=heartbeat(model=MessageModel.BROADCASTING))
    side.consuming.groups.find("readers").consume_broadcast_enable = False
    reply = await side.ask(11, pull_fields(sysFlag=0))
    assert reply.remark == "the consumer group[readers] can not consume by broadcast way"


async def test_a_pull_at_the_end_is_held_and_answered_by_the_message_it_waits_for(side):
    side.put(b"old")
    side.send(11, pull_held(1))
    assert side.peer.answers() == []
    assert side.consuming.pulls.held_count == 1
    side.put(b"new")
    reply = side.peer.answer()
    assert (reply.code, bodies_of(reply.body)) == (0, [b"new"])
    assert side.consuming.pulls.held_count == 0


async def test_a_pull_on_a_queue_that_never_had_a_message_is_held_too(side):
    side.send(11, pull_held(0, queueId=3))
    side.put(b"first", queue_id=3)
    assert bodies_of(side.peer.answer().body) == [b"first"]


@pytest.mark.parametrize("changes", [{"sysFlag": WITH_SUBSCRIPTION}, {"suspendTimeoutMillis": 0}])
async def test_a_pull_that_may_not_wait_is_answered_at_once(side, changes):
    side.put(b"old")
    reply = await side.ask(11, pull_held(1, **changes))
    assert (reply.code, reply.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")


async def test_a_held_pull_is_answered_empty_at_its_deadline_not_before(side):
    side.put(b"old")
    loop = asyncio.get_running_loop()
    started = loop.time()
    reply = await side.ask(11, pull_held(1, suspendTimeoutMillis=120))
    assert loop.time() - started >= 0.12
    assert (reply.code, reply.read(PullReplyHeader).next_begin_offset) == (ResponseCode.PULL_NOT_FOUND, 1)


async def test_long_polling_switched_off_holds_for_the_short_time_only(side):
    side.settings.long_polling_enable = False
    side.settings.short_polling_ms = 60
    assert (await side.ask(11, pull_held(0))).code == ResponseCode.PULL_NOT_FOUND


async def test_unwanted_messages_do_not_answer_a_held_pull_but_are_behind_it_afterwards(side):
    side.send(11, pull_held(0, subscription="red", suspendTimeoutMillis=150))
    side.put(b"b", tags="blue")
    assert side.peer.answers() == []
    reply = await side.answered()
    assert (reply.code, reply.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert reply.read(PullReplyHeader).next_begin_offset == 1


async def test_a_wanted_message_after_unwanted_ones_is_found_without_checking_them_again(side):
    side.send(11, pull_held(0, subscription="red"))
    for _ in range(2000):
        side.put(b"b", tags="blue")
    side.put(b"r", tags="red")
    assert bodies_of(side.peer.answer().body) == [b"r"]


async def test_a_held_pull_is_checked_again_when_it_is_answered(side):
    side.send(11, pull_held(0))
    side.consuming.groups.set_consume_enable("readers", enable=False)
    side.put(b"m")
    assert side.peer.answer().code == ResponseCode.NO_PERMISSION


async def test_a_deleted_topic_answers_the_waits_on_it(side):
    side.send(11, pull_held(0))
    del side.store.topics.configs["orders"]
    side.consuming.topic_deleted("orders")
    assert side.peer.answer().code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_closed_connection_is_not_answered_any_more(side):
    side.send(11, pull_held(0))
    side.consuming.closed(side.peer)
    side.put(b"m")
    assert side.peer.answers() == []


async def test_stopping_answers_everything_held(tmp_path):
    side = ReadingSide(tmp_path)
    side.send(11, pull_held(0))
    await side.consuming.stop()
    assert side.peer.answer().code == ResponseCode.PULL_NOT_FOUND


async def test_offsets_come_with_pulls_only_when_marked_and_never_in_the_name_of_gateways(side):
    side.put(b"m")
    await side.ask(11, pull_fields(0, commitOffset=7))
    assert side.consuming.offsets.find("readers", "orders", 0) is None
    await side.ask(11, pull_fields(0, commitOffset=7, sysFlag=WITH_SUBSCRIPTION | COMMIT))
    assert side.consuming.offsets.find("readers", "orders", 0) == 7
    fields = pull_fields(0, commitOffset=9, sysFlag=WITH_SUBSCRIPTION | COMMIT, consumerGroup=GATEWAY_GROUP)
    await side.ask(11, fields)
    assert side.consuming.offsets.find(GATEWAY_GROUP, "orders", 0) is None
    assert GATEWAY_GROUP not in side.consuming.groups.names()


async def test_a_held_pull_commits_once_when_it_arrives(side):
    side.send(11, pull_held(0, commitOffset=3, sysFlag=SUSPEND | WITH_SUBSCRIPTION | COMMIT))
    side.consuming.offsets.commit("readers", "orders", 0, 5)
    side.put(b"m")
    assert side.consuming.offsets.find("readers", "orders", 0) == 5


async def test_a_pull_that_a_commit_has_overtaken_does_not_set_the_offset_back(side):
    side.consuming.offsets.commit("readers", "orders", 0, 5)
    side.put(b"m")
    await side.ask(11, pull_fields(0, commitOffset=3, sysFlag=WITH_SUBSCRIPTION | COMMIT))
    assert side.consuming.offsets.find("readers", "orders", 0) == 5
    await side.ask(11, pull_fields(0, commitOffset=6, sysFlag=WITH_SUBSCRIPTION | COMMIT))
    assert side.consuming.offsets.find("readers", "orders", 0) == 6


async def test_a_held_pull_ends_by_its_number_and_only_over_its_own_connection(side):
    for number in (7, 8):
        side.send(11, pull_held(0, gantryWaitId=number))
    assert side.consuming.pulls.held_count == 2
    other = MemoryPeer()
    side.send(9035, {"waitId": 7}, peer=other, oneway=True)
    side.send(9035, {"waitId": 9}, oneway=True)
    assert side.consuming.pulls.held_count == 2
    side.send(9035, {"waitId": 7}, oneway=True)
    side.send(9035, {"waitId": 7}, oneway=True)
    assert side.consuming.pulls.held_count == 1
    side.put(b"m")
    assert len(side.peer.answers()) == 1
    side.send(9035, {"waitId": 8}, oneway=True)
    assert side.consuming.pulls.held_count == 0


async def test_a_corrected_offset_is_returned_and_stored_as_an_event(side):
    side.put(b"m")
    reply = await side.ask(11, pull_held(9))
    assert (reply.code, reply.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY")
    assert reply.read(PullReplyHeader).next_begin_offset == 1
    ((topic, queue_id, body, tags, keys),) = side.store.internal
    assert (topic, queue_id, tags, keys) == ("OFFSET_MOVED_EVENT", 0, "readers", "readers")
    event = msgspec.json.decode(body)
    assert (event["offsetRequest"], event["offsetNew"]) == (9, 1)


async def test_cold_bytes_are_read_in_a_thread_and_still_answered(side):
    side.put(b"m")
    side.store.log.cold = True
    side.send(11, pull_fields(0))
    assert side.peer.answers() == []
    assert side.classes["pull"].in_flight == 1
    assert bodies_of((await side.answered()).body) == [b"m"]
    assert side.classes["pull"].in_flight == 0
    assert side.consuming.metrics.cold_reads == 1


async def test_damage_is_left_out_of_the_reply_and_counted(side):
    for number in range(3):
        side.put(b"m%d" % number)
    side.store.log.damaged = {50}
    assert bodies_of((await side.ask(11, pull_fields(0))).body) == [b"m1", b"m2"]
    assert side.consuming.metrics.damaged_records == 1


async def test_a_disk_error_is_reported_and_harms_no_other_request(side, capsys):
    side.put(b"m")

    def fails(position, size):
        raise OSError(5, "Input/output error")

    side.store.log.cold, side.store.log.read = True, fails
    reply = await side.ask(11, pull_fields(0))
    assert (reply.code, "Input/output error" in reply.remark) == (ResponseCode.SYSTEM_ERROR, True)
    logged = "".join(capsys.readouterr())
    assert "because the disk did" in logged
    assert "Traceback" not in logged


async def test_an_arrival_answers_only_the_pulls_that_wait_for_it_however_many_are_held(side):
    side.store.topics.ensure("wide", 1000, 6)
    peers = [MemoryPeer() for _ in range(10)]
    for number in range(1000):
        side.send(11, pull_held(0, topic="wide", queueId=number), peer=peers[number % 10])
    side.put(b"m", topic="wide", queue_id=777)
    assert bodies_of(peers[7].answer().body) == [b"m"]
    assert all(peer.answers() == [] for peer in peers)
    assert side.consuming.pulls.held_count == 999


class Revoked:
    """Access control that takes a right away while a pull is held."""

    def __init__(self):
        self.error = None

    def refusal(self):
        return self.error


@pytest.mark.parametrize("way", ["a message", "its deadline", "the end"])
async def test_a_held_pull_whose_user_lost_its_right_is_refused_however_it_ends(side, way):
    side.peer.attributes[ADMITTED] = admitted = Revoked()
    side.put(b"m0")
    side.send(11, pull_held(1, suspendTimeoutMillis=50 if way == "its deadline" else 30_000))
    side.peer.attributes.clear()  # another request came over the connection
    assert side.consuming.pulls.held_count == 1
    admitted.error = RefusedRequest(ResponseCode.NO_PERMISSION, "User:alice is disabled.")
    if way == "a message":
        side.put(b"m1")
    elif way == "the end":
        side.consuming.pulls.answer_all()
    async with asyncio.timeout(10):
        while not (answers := side.peer.answers()):
            await asyncio.sleep(0.01)
    (answer,) = answers
    assert (answer.code, answer.remark, answer.body) == (
        ResponseCode.NO_PERMISSION,
        "User:alice is disabled.",
        b"",
    )


async def test_a_held_pull_that_access_control_still_allows_is_answered(side):
    side.peer.attributes[ADMITTED] = Revoked()
    side.put(b"m0")
    side.send(11, pull_held(1))
    side.put(b"m1")
    (answer,) = side.peer.answers()
    assert bodies_of(answer.body) == [b"m1"]


def test_the_attribute_is_that_of_the_guard():
    assert ADMITTED == callers.ADMITTED


@pytest.mark.parametrize(
    ("slaves", "own", "slow", "suggested"),
    [
        ([2, 3], 0, 1, (2, 0)),
        ([2, 3], 0, 3, (3, 0)),
        ([1], 0, 3, (1, 0)),
        ([], 0, 1, (0, 0)),
        ([2, 3], 3, 1, (2, 3)),
    ],
)
async def test_old_messages_are_to_be_read_where_the_group_says_if_slaves_may_be_read(
    side, slaves, own, slow, suggested
):
    side.put(bytes(100))
    side.put(b"young")
    side.slaves = slaves
    group = side.groups.find_or_create("readers")
    group.broker_id, group.which_broker_when_consume_slowly = own, slow
    side.settings.limits = replace(side.settings.limits, memory_bytes=150)

    async def suggestions():
        replies = [await side.ask(11, pull_fields(offset, maxMsgNums=1)) for offset in (0, 1)]
        return tuple(reply.read(PullReplyHeader).suggest_which_broker_id for reply in replies)

    assert await suggestions() == (0, 0)
    side.config.update({"slaveReadEnable": "true"})
    assert await suggestions() == suggested
