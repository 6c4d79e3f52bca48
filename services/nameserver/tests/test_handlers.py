import pytest
from command_harness import CommandHarness
from registrations import broker_identity, holds

from gantry_wire.bodies.cluster import (
    BrokerMemberGroupBody,
    ClusterInfo,
    DataVersion,
    KVTable,
    QueueData,
    TopicList,
    TopicRouteData,
)
from gantry_wire.bodies.config_text import parse_config_text
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.bodies.register_broker import body_crc, encode_register_body
from gantry_wire.codes import RequestCode
from gantry_wire.errors import MissingField, RefusedRequest
from nameserver.handlers import COMMANDS

IDENTITY = {
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "DefaultCluster",
    "brokerId": "0",
}


REQUESTED = {
    100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901, 904,
}  # fmt: skip
"""Every code that brokers, clients and tools of RocketMQ 5.3.3 send to a nameserver."""


def test_every_code_has_a_handler():
    assert COMMANDS.keys() == REQUESTED


def register(harness, content=None, *, compressed=False, **fields):
    body = encode_register_body(content or holds("A", "B"), compressed=compressed)
    fields = {**IDENTITY, "haServerAddr": "10.0.0.1:10912", "compressed": str(compressed).lower(), **fields}
    return harness.ask(RequestCode.REGISTER_BROKER, {"bodyCrc32": str(body_crc(body)), **fields}, body)


def refusal(harness, code, fields=None, body=b""):
    with pytest.raises(RefusedRequest) as refused:
        harness.ask(code, fields, body)
    return int(refused.value.code), refused.value.remark


@pytest.mark.parametrize("compressed", [False, True])
def test_a_broker_registers_with_either_form_of_the_body(compressed):
    harness = CommandHarness()
    reply = register(harness, compressed=compressed)
    assert (reply.header.master_addr, reply.body) == (None, b"")
    assert harness.changes[0].topics == {"A", "B"}
    route = decode_body(harness.ask(105, {"topic": "A"}).body, TopicRouteData)
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}


def test_a_damaged_register_body_is_refused():
    harness = CommandHarness()
    body = encode_register_body(holds("A", "B"), compressed=False)
    assert refusal(harness, 103, {**IDENTITY, "bodyCrc32": str(body_crc(body) ^ 1)}, body) == (
        1,
        "crc32 not match",
    )
    harness.ask(103, {**IDENTITY, "bodyCrc32": "0"}, body)  # 0 is not checked


def test_a_first_register_of_one_topic_is_refused():
    body = encode_register_body(holds("A"), compressed=False)
    assert refusal(CommandHarness(), 103, IDENTITY, body) == (1, "register broker failed")


def test_a_register_without_an_address_names_the_field():
    with pytest.raises(MissingField, match="brokerAddr"):
        CommandHarness().ask(103, {name: value for name, value in IDENTITY.items() if name != "brokerAddr"})


def test_a_slave_gets_the_address_of_its_master():
    harness = CommandHarness()
    register(harness)
    reply = register(harness, brokerId="1", brokerAddr="10.0.0.2:10911")
    assert (reply.header.master_addr, reply.header.ha_server_addr) == ("10.0.0.1:10911", "10.0.0.1:10912")


async def _put(harness, namespace, key, value):
    await harness.ask(100, {"namespace": namespace, "key": key, "value": value}).after


@pytest.mark.anyio
async def test_a_register_returns_the_order_configuration_unless_switched_off():
    harness = CommandHarness()
    await _put(harness, "ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
    assert decode_body(register(harness).body, KVTable).table == {"orders": "broker-a:8"}
    harness.commands.config.switches.return_order_topic_config_to_broker = False
    assert register(harness).body == b""


def test_a_route_uses_bare_or_standard_json_by_client_version():
    harness = CommandHarness()
    register(harness)
    assert b'"brokerAddrs":{0:' in harness.ask(105, {"topic": "A"}, version=63).body
    assert b'"brokerAddrs":{0:' in harness.ask(105, {"topic": "A"}, version=400).body
    assert b'"brokerAddrs":{"0":' in harness.ask(105, {"topic": "A"}, version=401).body
    assert (
        b'"brokerAddrs":{"0":'
        in harness.ask(105, {"topic": "A", "acceptStandardJsonOnly": "true"}, version=63).body
    )


def test_an_unknown_topic_is_code_17_in_the_text_of_rocketmq():
    code, message = refusal(CommandHarness(), 105, {"topic": "nobody"})
    assert code == 17
    assert message.startswith("No topic route info in name server for the topic: nobody")


@pytest.mark.anyio
async def test_a_route_has_the_order_configuration_only_when_switched_on():
    harness = CommandHarness()
    register(harness)
    await _put(harness, "ORDER_TOPIC_CONFIG", "A", "broker-a:8")
    assert b"orderTopicConf" not in harness.ask(105, {"topic": "A"}).body
    harness.commands.config.switches.order_message_enable = True
    assert decode_body(harness.ask(105, {"topic": "A"}).body, TopicRouteData).order_topic_conf == "broker-a:8"


def test_routes_wait_for_brokers_when_configured_until_one_is_found():
    harness = CommandHarness(need_wait_for_service=True, wait_seconds_for_service=45)
    register(harness)
    assert refusal(harness, 105, {"topic": "A"}) == (1, "name server not ready")
    harness.core.now_ms += 45_000
    harness.ask(105, {"topic": "A"})
    harness.core.now_ms -= 45_000
    harness.ask(105, {"topic": "A"})


def test_unregister_removes_a_broker():
    harness = CommandHarness()
    register(harness)
    harness.ask(104, IDENTITY)
    assert harness.changes[-1].topics == {"A", "B"}
    assert refusal(harness, 105, {"topic": "A"})[0] == 17


def test_an_equal_data_version_counts_as_a_heartbeat():
    harness = CommandHarness()
    same, other = (
        encode_body(DataVersion(counter=1, timestamp=1)),
        encode_body(DataVersion(counter=2, timestamp=1)),
    )
    reply = harness.ask(322, IDENTITY, same)
    assert (reply.header.changed, reply.body) == (True, b"")
    register(harness)
    harness.core.now_ms += 100_000
    reply = harness.ask(322, IDENTITY, other)
    assert reply.header.changed
    assert decode_body(reply.body, DataVersion) == DataVersion(counter=1, timestamp=1)
    assert harness.core.tables.live[broker_identity().place].heard_at_ms == harness.core.now_ms - 100_000
    assert not harness.ask(322, IDENTITY, same).header.changed
    assert harness.core.tables.live[broker_identity().place].heard_at_ms == harness.core.now_ms


def test_a_heartbeat_delays_expiry():
    harness = CommandHarness()
    register(harness)
    harness.core.now_ms += 5
    harness.ask(904, IDENTITY)
    assert harness.core.tables.live[broker_identity().place].heard_at_ms == harness.core.now_ms
    harness.ask(904, {**IDENTITY, "brokerAddr": "unknown:1"})


def test_queries_of_tools_about_brokers():
    harness = CommandHarness()
    register(harness)
    info = decode_body(harness.ask(106).body, ClusterInfo)
    assert info.cluster_addr_table == {"DefaultCluster": ["broker-a"]}
    assert b'"brokerAddrs":{0:' in harness.ask(106).body  # bare keys, whatever the version
    group = decode_body(harness.ask(901, IDENTITY).body, BrokerMemberGroupBody).broker_member_group
    assert group.broker_addrs == {0: "10.0.0.1:10911"}
    assert harness.ask(205, {"brokerName": "broker-a"}).header.wipe_topic_count == 2
    assert harness.core.perms("A") == {"broker-a": 4}
    assert harness.ask(327, {"brokerName": "broker-a"}).header.add_topic_count == 2
    assert harness.changes[-1].topics == {"A", "B"}


def test_topics_are_listed_deleted_and_registered():
    harness = CommandHarness()
    register(harness)

    def topics(code, fields=None):
        return decode_body(harness.ask(code, fields).body, TopicList).topic_list

    assert topics(206) == ["A", "B"]
    harness.ask(216, {"topic": "A"})
    queue = QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)
    harness.ask(217, {"topic": "New"}, encode_body(TopicRouteData(queue_datas=[queue])))
    harness.ask(217, {"topic": "Nothing"})
    assert topics(224, {"cluster": "DefaultCluster"}) == ["B", "New"]
    assert topics(304) == ["DefaultCluster", "broker-a"]
    assert [topics(code) for code in (311, 312, 313)] == [[], [], []]


def test_topic_lists_can_be_switched_off():
    harness = CommandHarness(enable_all_topic_list=False, enable_topic_list=False)
    assert refusal(harness, 206) == (1, "disable")
    for code in (304, 311, 312, 313):
        assert refusal(harness, code) == (1, "disable")
    assert refusal(harness, 224, {"cluster": "c"}) == (1, "disable")


@pytest.mark.anyio
async def test_values_are_answered_once_they_are_on_disk():
    harness = CommandHarness()
    await _put(harness, "n", "k", "v")
    assert harness.kv_keeper.contents == [b'{"configTable":{"n":{"k":"v"}}}']
    assert harness.ask(101, {"namespace": "n", "key": "k"}).header.value == "v"
    assert decode_body(harness.ask(219, {"namespace": "n"}).body, KVTable).table == {"k": "v"}
    await harness.ask(102, {"namespace": "n", "key": "k"}).after
    assert refusal(harness, 101, {"namespace": "n", "key": "k"}) == (
        22,
        "No config item, Namespace: n Key: k",
    )
    assert refusal(harness, 219, {"namespace": "x"}) == (22, "No config item, Namespace: x")
    assert refusal(harness, 100, {"namespace": "", "key": "k", "value": "v"}) == (
        1,
        "namespace or key is null",
    )


@pytest.mark.anyio
async def test_settings_are_changed_saved_and_shown():
    harness = CommandHarness()
    await harness.ask(318, None, b"orderMessageEnable=true\n").after
    assert harness.config_keeper.contents == [b"orderMessageEnable=true\n"]
    assert parse_config_text(harness.ask(319).body)["orderMessageEnable"] == "true"
    assert harness.ask(318).after is None
    assert refusal(harness, 318, None, b"kvConfigPath=x")[0] == 16
