"""Which stores a store follows for their users: those of other brokers."""

from broker_store.access.other_stores import addresses_of_others
from gantry_wire.bodies.cluster import ClusterInfo
from gantry_wire.bodies.json_body import decode_body

INFO = decode_body(
    b'{"brokerAddrTable":{'
    b'"broker-a":{"brokerAddrs":{0:"127.0.0.1:1",2:"127.0.0.1:2"},"brokerName":"broker-a","cluster":"DefaultCluster"},'
    b'"broker-b":{"brokerAddrs":{0:"127.0.0.1:4",1:"127.0.0.1:3"},"brokerName":"broker-b","cluster":"DefaultCluster"},'
    b'"broker-c":{"brokerAddrs":{1:"127.0.0.1:5"},"brokerName":"broker-c","cluster":"DefaultCluster"},'
    b'"broker-x":{"brokerAddrs":{0:"127.0.0.1:9"},"brokerName":"broker-x","cluster":"Other"}},'
    b'"clusterAddrTable":{"DefaultCluster":["broker-a","broker-b","broker-c","broker-gone"],"Other":["broker-x"]}}',
    ClusterInfo,
)
"""As a nameserver answers code 106, with three brokers that have replicas; no replica of broker-c leads now."""


def test_replicas_of_the_own_broker_are_not_followed_and_those_of_others_are() -> None:
    assert addresses_of_others(INFO, "DefaultCluster", "broker-a") == [
        "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5",
    ]  # fmt: skip


def test_a_broker_without_others_in_its_cluster_has_nobody_to_follow() -> None:
    assert addresses_of_others(INFO, "Other", "broker-x") == []
    assert addresses_of_others(INFO, "NoCluster", "broker-a") == []
