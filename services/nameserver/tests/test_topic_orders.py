from registrations import CLUSTER, World, holds, who

from gantry_wire.bodies import QueueData


def queues(name):
    return QueueData(broker_name=name, perm=6, read_queue_nums=4, write_queue_nums=4)


def two_brokers():
    world = World()
    world.register(who("broker-a", address="h:1"), holds("A", "B"), channel=1)
    world.register(who("broker-b", address="h:2", cluster="Other"), holds("A", "B"), channel=2)
    return world


def test_a_topic_is_deleted_everywhere_or_in_one_cluster():
    world = two_brokers()
    assert world.orders.delete("A", CLUSTER).topics == {"A"}
    assert list(world.tables.topics["A"]) == ["broker-b"]
    assert world.orders.delete("A", None).topics == {"A"}
    assert "A" not in world.tables.topics
    assert world.orders.delete("A", None).topics == set()


def test_a_registered_topic_is_routed_until_the_first_unknown_broker():
    world = two_brokers()
    change = world.orders.register("New", [queues("broker-b"), queues("unknown"), queues("broker-a")])
    assert change.topics == {"New"}
    assert list(world.tables.topics["New"]) == ["broker-b"]
    assert world.orders.register("None", [queues("unknown")]).topics == set()
    assert "None" not in world.tables.topics


def test_permissions_are_wiped_and_given_back_on_one_broker():
    world = two_brokers()
    assert world.orders.wipe_write_perm("broker-a")[0] == 2
    assert world.perms("A") == {"broker-a": 4, "broker-b": 6}
    count, change = world.orders.add_write_perm("broker-a")
    assert (count, change.topics) == (2, {"A", "B"})
    assert world.perms("A") == {"broker-a": 6, "broker-b": 6}
    assert world.orders.wipe_write_perm("nobody")[0] == 0
