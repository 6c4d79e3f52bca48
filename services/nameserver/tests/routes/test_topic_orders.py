from registrations import CLUSTER, Core, broker_identity, holds

from gantry_wire.bodies.cluster import QueueData


def queues(name):
    return QueueData(broker_name=name, perm=6, read_queue_nums=4, write_queue_nums=4)


def two_brokers():
    core = Core()
    core.register(broker_identity("broker-a", address="h:1"), holds("A", "B"), channel=1)
    core.register(broker_identity("broker-b", address="h:2", cluster="Other"), holds("A", "B"), channel=2)
    return core


def test_a_topic_is_deleted_everywhere_or_in_one_cluster():
    core = two_brokers()
    assert core.orders.delete("A", CLUSTER).topics == {"A"}
    assert list(core.tables.topics["A"]) == ["broker-b"]
    assert core.orders.delete("A", None).topics == {"A"}
    assert "A" not in core.tables.topics
    assert core.orders.delete("A", None).topics == set()


def test_a_registered_topic_is_routed_up_to_the_first_unknown_broker():
    core = two_brokers()
    change = core.orders.register("New", [queues("broker-b"), queues("unknown"), queues("broker-a")])
    assert change.topics == {"New"}
    assert list(core.tables.topics["New"]) == ["broker-b"]
    assert core.orders.register("None", [queues("unknown")]).topics == set()
    assert "None" not in core.tables.topics


def test_permissions_are_wiped_and_restored_on_one_broker():
    core = two_brokers()
    assert core.orders.wipe_write_perm("broker-a")[0] == 2
    assert core.perms("A") == {"broker-a": 4, "broker-b": 6}
    count, change = core.orders.add_write_perm("broker-a")
    assert (count, change.topics) == (2, {"A", "B"})
    assert core.perms("A") == {"broker-a": 6, "broker-b": 6}
    assert core.orders.wipe_write_perm("nobody")[0] == 0
