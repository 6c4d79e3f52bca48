"""Typed bodies are read exactly, or as tolerantly as fastjson does, or refused."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_wire.bodies import admin as admin_bodies
from gantry_wire.bodies import clients as client_bodies
from gantry_wire.bodies import cluster as cluster_bodies
from gantry_wire.bodies.admin import TopicStatsTable
from gantry_wire.bodies.clients import (
    ConsumeFromWhere,
    ConsumeType,
    GetConsumerStatusBody,
    HeartbeatData,
    LockBatchRequestBody,
    MessageModel,
    ResetOffsetBody,
)
from gantry_wire.bodies.cluster import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    KVTable,
    MessageQueue,
    QueueData,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
)
from gantry_wire.bodies.json_body import Body, decode_body, encode_body
from gantry_wire.errors import MalformedBody

KINDS = [
    kind
    for module in (admin_bodies, client_bodies, cluster_bodies)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Body) and kind.__module__ == module.__name__
]
QUEUE = MessageQueue(broker_name="b", queue_id=0, topic="T")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_every_body_round_trips(kind, data, values_of):
    body = data.draw(values_of(kind))
    assert decode_body(encode_body(body), kind) == body
    assert decode_body(encode_body(body, standard=True), kind) == body
    assert decode_body(b" " + encode_body(body) + b"\n", kind) == body


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"{1:2}x", b"\xff", b"{" * 10_000, b"[" * 100_000])
def test_invalid_bodies_are_refused(kind, data):
    with pytest.raises(MalformedBody):
        decode_body(data, kind)


def test_a_route_is_written_in_both_forms():
    route = TopicRouteData(
        broker_datas=[BrokerData(broker_name="b", broker_addrs={0: "10.0.0.1:10911"}, cluster="c")],
        queue_datas=[QueueData(broker_name="b", perm=6, read_queue_nums=8, write_queue_nums=8)],
    )
    tail = (
        b'"brokerName":"b","cluster":"c","enableActingMaster":false}],"filterServerTable":{},"queueDatas":'
        b'[{"brokerName":"b","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
    )
    assert encode_body(route) == b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},' + tail
    assert (
        encode_body(route, standard=True) == b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},' + tail
    )


def test_queues_are_keys_in_the_form_that_mqadmin_reads():
    body = ResetOffsetBody(offset_table={QUEUE: 123})
    assert encode_body(body) == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:123}}'
    nested = b'{"consumerTable":{"c":{{ "topic":"T", "queueId":"0", brokerName:\'b\' }:1}}}'
    assert decode_body(nested, GetConsumerStatusBody).consumer_table == {"c": {QUEUE: 1}}


def test_a_heartbeat_of_the_cpp_client_is_read():
    text = (
        b'{"clientID":"10.0.0.1@7","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"g",'
        b'"messageModel":1,"subscriptionDataSet":[{"classFilterMode":false,"codeSet":["0",0],"subString":"TagA",'
        b'"subVersion":"1700000000000","tagsSet":["TagA",5],"topic":"T"}],"unitMode":false}],'
        b'"producerDataSet":null}\n'
    )
    heartbeat = decode_body(text, HeartbeatData)
    (consumer,) = heartbeat.consumer_data_set
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is MessageModel.CLUSTERING
    assert heartbeat.producer_data_set == []
    (subscription,) = consumer.subscription_data_set
    assert (subscription.sub_version, subscription.tags_set) == (1700000000000, ["TagA", "5"])
    assert subscription.expression_type == "TAG"


@pytest.mark.parametrize("kind", [9, -1, True, "NONSENSE", 1.5])
def test_an_unknown_consume_type_is_refused(kind):
    text = str(kind).lower() if not isinstance(kind, str) else f'"{kind}"'
    if kind is True:
        text = '"true"'
    data = f'{{"clientID":"c","consumerDataSet":[{{"groupName":"g","consumeType":{text}}}]}}'
    with pytest.raises(MalformedBody):
        decode_body(data.encode(), HeartbeatData)


def test_numbers_and_booleans_become_text_in_text_fields():
    assert decode_body(b'{"table":{"a":1,"b":true,"c":2.5,"d":null}}', KVTable).table == {
        "a": "1",
        "b": "true",
        "c": "2.5",
    }


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"offsetTable":{5:1}}', ResetOffsetBody),
        (b'{"offsetTable":{"text":1}}', ResetOffsetBody),
        (b'{"offsetTable":{{"brokerName":"b"}:1}}', ResetOffsetBody),
        (b'{"offsetTable":[1]}', TopicStatsTable),
        (b'{"topicList":{}}', TopicList),
        (b'{"brokerAddrTable":{"b":[]}}', ClusterInfo),
        (b'{"clientId":"c"}', LockBatchRequestBody),
        (b'{"topicList":[[1]]}', TopicList),
    ],
)
def test_other_shapes_are_refused(data, kind):
    with pytest.raises(MalformedBody):
        decode_body(data, kind)


def test_fields_that_are_none_are_not_written():
    assert encode_body(TopicList(topic_list=["T"])) == b'{"topicList":["T"]}'
    assert encode_body(TopicList(topic_list=[], broker_addr="a:1")) == b'{"brokerAddr":"a:1","topicList":[]}'


def test_unknown_fields_of_newer_versions_are_ignored():
    text = b'{"topicName":"T","perm":4,"novelty":{"a":[1]},"attributes":{"+k":"v"}}'
    assert decode_body(text, TopicConfig) == TopicConfig(topic_name="T", perm=4, attributes={"+k": "v"})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.is_plain], ids=lambda kind: kind.__name__)
@settings(max_examples=10)
@given(data=st.data())
def test_plain_bodies_contain_no_bare_keys_and_no_nulls(kind, data, values_of):
    body = data.draw(values_of(kind))
    assert json.loads(encode_body(body)) == json.loads(encode_body(body, standard=True))


def test_a_version_counts_changes():
    version = DataVersion()
    version.advance(5)
    assert version == DataVersion(counter=1, timestamp=5)
    wrapper = TopicConfigSerializeWrapper(data_version=version)
    assert encode_body(wrapper).startswith(b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":5}')
