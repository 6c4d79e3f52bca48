from registrations import CLUSTER, Core, broker_identity, holds

from gantry_wire.bodies.json_body import encode_body
from nameserver.routes.views import UNIT, UNIT_SUBSCRIPTION


def two_clusters():
    core = Core()
    core.register(broker_identity("broker-a", address="h:1"), holds("A", "Both"), channel=1)
    core.register(broker_identity("broker-b", address="h:2", cluster="Other"), holds("B", "Both"), channel=2)
    return core


def test_a_route_is_readable_by_clients_older_than_4_9_4():
    core = Core()
    core.register()
    assert encode_body(core.views.route("A")) == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
    )


def test_a_route_shows_every_broker_of_the_topic():
    route = two_clusters().views.route("Both")
    assert [data.broker_name for data in route.broker_datas] == ["broker-a", "broker-b"]
    assert [queues.broker_name for queues in route.queue_datas] == ["broker-a", "broker-b"]


def test_a_route_is_a_copy():
    core = Core()
    core.register()
    core.views.route("A").broker_datas[0].broker_addrs[0] = "changed"
    assert core.views.route("A").broker_datas[0].broker_addrs[0] == "10.0.0.1:10911"


def test_an_unknown_topic_has_no_route():
    assert two_clusters().views.route("nobody") is None


def test_cluster_info_names_brokers_by_cluster():
    info = two_clusters().views.cluster_info()
    assert info.cluster_addr_table == {CLUSTER: ["broker-a"], "Other": ["broker-b"]}
    assert info.broker_addr_table["broker-b"].broker_addrs == {0: "h:2"}


def test_topic_lists():
    views = two_clusters().views
    assert views.all_topics().topic_list == ["A", "Both", "B"]
    assert views.topics_of_cluster("Other").topic_list == ["Both", "B"]
    assert views.topics_of_cluster("nowhere").topic_list == []
    system = views.system_topics()
    assert system.topic_list == [CLUSTER, "broker-a", "Other", "broker-b"]
    assert system.broker_addr == "h:1"
    assert Core().views.system_topics().broker_addr is None


def test_unit_topics_are_recognized_by_their_flags():
    core = Core()
    flags = {"plain": 0, "unit": UNIT, "sub": UNIT_SUBSCRIPTION, "both": UNIT | UNIT_SUBSCRIPTION}
    core.register(body=holds(**{name: {"topic_sys_flag": flag} for name, flag in flags.items()}))
    assert core.views.unit_topics().topic_list == ["unit", "both"]
    assert core.views.unit_subscription_topics().topic_list == ["sub", "both"]
    assert core.views.unit_subscription_non_unit_topics().topic_list == ["sub"]


def test_the_member_group_lists_all_addresses_of_a_name():
    core = Core()
    core.register()
    core.register(broker_identity(number=1, address="10.0.0.2:10911"), channel=2)
    group = core.views.member_group(CLUSTER, "broker-a").broker_member_group
    assert group.broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert core.views.member_group(CLUSTER, "nobody").broker_member_group.broker_addrs == {}


def test_slaves_of_a_lost_master_stay_readable():
    core = Core()
    core.register()
    core.register(broker_identity(number=1, address="10.0.0.2:10911"), channel=2)
    core.registry.channel_closed(1)
    route = core.views.route("A")
    assert route.broker_datas[0].broker_addrs == {1: "10.0.0.2:10911"}
    assert route.queue_datas[0].perm == 6


def test_an_acting_master_is_shown_only_while_no_broker_takes_writes():
    core = Core(support_acting_master=True)
    slave = broker_identity(number=1, address="10.0.0.2:10911", acting_master=True)
    core.register(slave)
    core.orders.add_write_perm("broker-a")
    assert core.views.route("A").broker_datas[0].broker_addrs == {1: "10.0.0.2:10911"}
    core.orders.wipe_write_perm("broker-a")
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}
