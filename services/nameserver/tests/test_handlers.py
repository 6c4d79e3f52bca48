import pytest
from nameserver_parts import Desk
from registrations import holds, who

from gantry_wire.bodies import (
    BrokerMemberGroupBody,
    ClusterInfo,
    DataVersion,
    KVTable,
    QueueData,
    TopicList,
    TopicRouteData,
    decode_body,
    encode_body,
)
from gantry_wire.codes import RequestCode
from gantry_wire.config_text import parse_config_text
from gantry_wire.errors import MissingField, RefusedRequest
from gantry_wire.register_body import body_crc, encode_register_body
from nameserver.handlers import COMMANDS

IDENTITY = {
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "DefaultCluster",
    "brokerId": "0",
}


ASKED = {
    100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901, 904,
}  # fmt: skip
"""Every code that brokers, clients and tools of RocketMQ 5.3.3 send to a nameserver."""


def test_no_code_is_without_its_handler():
    assert COMMANDS.keys() == ASKED


def register(desk, content=None, *, compressed=False, **fields):
    body = encode_register_body(content or holds("A", "B"), compressed=compressed)
    fields = {**IDENTITY, "haServerAddr": "10.0.0.1:10912", "compressed": str(compressed).lower(), **fields}
    return desk.ask(RequestCode.REGISTER_BROKER, {"bodyCrc32": str(body_crc(body)), **fields}, body)


def refusal(desk, code, fields=None, body=b""):
    with pytest.raises(RefusedRequest) as refused:
        desk.ask(code, fields, body)
    return int(refused.value.code), refused.value.remark


@pytest.mark.parametrize("compressed", [False, True])
def test_a_broker_registers_in_both_forms_of_the_body(compressed):
    desk = Desk()
    reply = register(desk, compressed=compressed)
    assert (reply.header.master_addr, reply.body) == (None, b"")
    assert desk.changes[0].topics == {"A", "B"}
    route = decode_body(desk.ask(105, {"topic": "A"}).body, TopicRouteData)
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}


def test_a_damaged_register_body_is_refused():
    desk = Desk()
    body = encode_register_body(holds("A", "B"), compressed=False)
    assert refusal(desk, 103, {**IDENTITY, "bodyCrc32": str(body_crc(body) ^ 1)}, body) == (
        1,
        "crc32 not match",
    )
    desk.ask(103, {**IDENTITY, "bodyCrc32": "0"}, body)  # 0 is not checked


def test_a_first_register_of_one_topic_is_refused():
    body = encode_register_body(holds("A"), compressed=False)
    assert refusal(Desk(), 103, IDENTITY, body) == (1, "register broker failed")


def test_a_register_without_an_address_names_the_field():
    with pytest.raises(MissingField, match="brokerAddr"):
        Desk().ask(103, {name: value for name, value in IDENTITY.items() if name != "brokerAddr"})


def test_a_slave_is_told_its_master():
    desk = Desk()
    register(desk)
    reply = register(desk, brokerId="1", brokerAddr="10.0.0.2:10911")
    assert (reply.header.master_addr, reply.header.ha_server_addr) == ("10.0.0.1:10911", "10.0.0.1:10912")


async def _put(desk, namespace, key, value):
    await desk.ask(100, {"namespace": namespace, "key": key, "value": value}).after


@pytest.mark.anyio
async def test_a_register_answers_the_order_configuration_unless_switched_off():
    desk = Desk()
    await _put(desk, "ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
    assert decode_body(register(desk).body, KVTable).table == {"orders": "broker-a:8"}
    desk.parts.config.switches.return_order_topic_config_to_broker = False
    assert register(desk).body == b""


def test_a_route_comes_as_bare_or_standard_json_by_the_clients_version():
    desk = Desk()
    register(desk)
    assert b'"brokerAddrs":{0:' in desk.ask(105, {"topic": "A"}, version=63).body
    assert b'"brokerAddrs":{0:' in desk.ask(105, {"topic": "A"}, version=400).body
    assert b'"brokerAddrs":{"0":' in desk.ask(105, {"topic": "A"}, version=401).body
    assert (
        b'"brokerAddrs":{"0":'
        in desk.ask(105, {"topic": "A", "acceptStandardJsonOnly": "true"}, version=63).body
    )


def test_an_unknown_topic_is_code_17_in_rocketmqs_words():
    code, words = refusal(Desk(), 105, {"topic": "nobody"})
    assert code == 17
    assert words.startswith("No topic route info in name server for the topic: nobody")


@pytest.mark.anyio
async def test_a_route_carries_the_order_configuration_only_when_switched_on():
    desk = Desk()
    register(desk)
    await _put(desk, "ORDER_TOPIC_CONFIG", "A", "broker-a:8")
    assert b"orderTopicConf" not in desk.ask(105, {"topic": "A"}).body
    desk.parts.config.switches.order_message_enable = True
    assert decode_body(desk.ask(105, {"topic": "A"}).body, TopicRouteData).order_topic_conf == "broker-a:8"


def test_routes_wait_for_brokers_when_asked_to_until_one_was_found():
    desk = Desk(need_wait_for_service=True, wait_seconds_for_service=45)
    register(desk)
    assert refusal(desk, 105, {"topic": "A"}) == (1, "name server not ready")
    desk.world.now_ms += 45_000
    desk.ask(105, {"topic": "A"})
    desk.world.now_ms -= 45_000
    desk.ask(105, {"topic": "A"})


def test_unregister_takes_a_broker_out():
    desk = Desk()
    register(desk)
    desk.ask(104, IDENTITY)
    assert desk.changes[-1].topics == {"A", "B"}
    assert refusal(desk, 105, {"topic": "A"})[0] == 17


def test_a_data_version_is_compared_and_an_equal_one_is_a_sign_of_life():
    desk = Desk()
    same, other = (
        encode_body(DataVersion(counter=1, timestamp=1)),
        encode_body(DataVersion(counter=2, timestamp=1)),
    )
    reply = desk.ask(322, IDENTITY, same)
    assert (reply.header.changed, reply.body) == (True, b"")
    register(desk)
    desk.world.now_ms += 100_000
    reply = desk.ask(322, IDENTITY, other)
    assert reply.header.changed
    assert decode_body(reply.body, DataVersion) == DataVersion(counter=1, timestamp=1)
    assert desk.world.tables.live[who().place].heard_at_ms == desk.world.now_ms - 100_000
    assert not desk.ask(322, IDENTITY, same).header.changed
    assert desk.world.tables.live[who().place].heard_at_ms == desk.world.now_ms


def test_a_heartbeat_is_a_sign_of_life():
    desk = Desk()
    register(desk)
    desk.world.now_ms += 5
    desk.ask(904, IDENTITY)
    assert desk.world.tables.live[who().place].heard_at_ms == desk.world.now_ms
    desk.ask(904, {**IDENTITY, "brokerAddr": "unknown:1"})


def test_what_tools_ask_about_brokers():
    desk = Desk()
    register(desk)
    info = decode_body(desk.ask(106).body, ClusterInfo)
    assert info.cluster_addr_table == {"DefaultCluster": ["broker-a"]}
    assert b'"brokerAddrs":{0:' in desk.ask(106).body  # bare keys, whatever the version
    group = decode_body(desk.ask(901, IDENTITY).body, BrokerMemberGroupBody).broker_member_group
    assert group.broker_addrs == {0: "10.0.0.1:10911"}
    assert desk.ask(205, {"brokerName": "broker-a"}).header.wipe_topic_count == 2
    assert desk.world.perms("A") == {"broker-a": 4}
    assert desk.ask(327, {"brokerName": "broker-a"}).header.add_topic_count == 2
    assert desk.changes[-1].topics == {"A", "B"}


def test_topics_are_listed_deleted_and_registered():
    desk = Desk()
    register(desk)

    def topics(code, fields=None):
        return decode_body(desk.ask(code, fields).body, TopicList).topic_list

    assert topics(206) == ["A", "B"]
    desk.ask(216, {"topic": "A"})
    queue = QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)
    desk.ask(217, {"topic": "New"}, encode_body(TopicRouteData(queue_datas=[queue])))
    desk.ask(217, {"topic": "Nothing"})
    assert topics(224, {"cluster": "DefaultCluster"}) == ["B", "New"]
    assert topics(304) == ["DefaultCluster", "broker-a"]
    assert [topics(code) for code in (311, 312, 313)] == [[], [], []]


def test_topic_lists_can_be_switched_off():
    desk = Desk(enable_all_topic_list=False, enable_topic_list=False)
    assert refusal(desk, 206) == (1, "disable")
    for code in (304, 311, 312, 313):
        assert refusal(desk, code) == (1, "disable")
    assert refusal(desk, 224, {"cluster": "c"}) == (1, "disable")


@pytest.mark.anyio
async def test_values_are_answered_when_they_are_kept():
    desk = Desk()
    await _put(desk, "n", "k", "v")
    assert desk.kv_keeper.contents == [b'{"configTable":{"n":{"k":"v"}}}']
    assert desk.ask(101, {"namespace": "n", "key": "k"}).header.value == "v"
    assert decode_body(desk.ask(219, {"namespace": "n"}).body, KVTable).table == {"k": "v"}
    await desk.ask(102, {"namespace": "n", "key": "k"}).after
    assert refusal(desk, 101, {"namespace": "n", "key": "k"}) == (22, "No config item, Namespace: n Key: k")
    assert refusal(desk, 219, {"namespace": "x"}) == (22, "No config item, Namespace: x")
    assert refusal(desk, 100, {"namespace": "", "key": "k", "value": "v"}) == (1, "namespace or key is null")


@pytest.mark.anyio
async def test_settings_are_changed_kept_and_shown():
    desk = Desk()
    await desk.ask(318, None, b"orderMessageEnable=true\n").after
    assert desk.config_keeper.contents == [b"orderMessageEnable=true\n"]
    assert parse_config_text(desk.ask(319).body)["orderMessageEnable"] == "true"
    assert desk.ask(318).after is None
    assert refusal(desk, 318, None, b"kvConfigPath=x")[0] == 16
