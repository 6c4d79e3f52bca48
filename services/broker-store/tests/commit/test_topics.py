import pytest

from broker_store.commit.topics import (
    IllegalAttributes,
    TopicPolicy,
    TopicTable,
    change_attributes,
    new_topic,
)
from broker_store.config.config_files import DataVersionCounter
from gantry_wire.errors import RefusedRequest

POLICY = TopicPolicy("DefaultCluster", "broker-a")


def table(policy: TopicPolicy = POLICY, known=(), changed=None) -> TopicTable:
    return TopicTable(
        policy, DataVersionCounter(lambda: 5), known, [].append if changed is None else changed.append
    )


def test_every_system_topic_of_rocketmq_is_there():
    topics = table()
    queues = {name: topics.find(name).write_queue_nums for name in topics.system_names()}
    assert queues["TBW102"] == 8
    assert queues["SCHEDULE_TOPIC_XXXX"] == 18
    assert queues["BenchmarkTest"] == 1024
    assert queues["DefaultCluster"] == 16
    assert queues["DefaultCluster_REPLY_TOPIC"] == 1
    assert queues["rmq_sys_REVIVE_LOG_DefaultCluster"] == 8
    assert topics.find("rmq_sys_SYNC_BROKER_MEMBER_broker-a").perm == 1


def test_a_topic_made_by_a_send_has_at_most_the_templates_queues_and_does_not_inherit():
    topics = table()
    assert topics.create_for_send("a", "TBW102", 4).write_queue_nums == 4
    assert topics.create_for_send("b", "TBW102", 100).write_queue_nums == 8
    assert topics.find("a").perm == 6


@pytest.mark.parametrize("queues", [0, -3])
def test_a_send_that_asks_for_no_queue_makes_no_topic(queues):
    topics = table()
    assert topics.create_for_send("a", "TBW102", queues) is None
    assert topics.find("a") is None
    assert topics.create_for_send("a", "TBW102", 4).write_queue_nums == 4


def test_any_topic_with_the_inherit_permission_may_be_the_template():
    topics = table()
    topics.put(new_topic("mine", 3, perm=7))
    assert topics.create_for_send("a", "mine", 16).write_queue_nums == 3
    topics.put(new_topic("closed", 3, perm=6))
    assert topics.create_for_send("b", "closed", 16) is None
    assert topics.create_for_send("b", "unknown", 16) is None


def test_without_automatic_creation_the_template_does_not_inherit():
    topics = table(TopicPolicy("c", "b", auto_create=False))
    assert topics.create_for_send("a", "TBW102", 4) is None
    assert topics.find("TBW102").perm == 6


def test_a_retry_topic_needs_no_template():
    topic = table(TopicPolicy("c", "b", auto_create=False)).create_for_send("%RETRY%g", "TBW102", 4)
    assert (topic.write_queue_nums, topic.perm) == (1, 6)


def test_every_change_raises_the_version_and_is_reported():
    changed = []
    topics = table(changed=changed)
    before = topics.version.value
    topics.ensure("a", 2)
    topics.ensure("a", 2)
    topics.delete("a")
    assert topics.delete("a") is False
    assert changed == ["a", "a"]
    assert topics.version.value.counter == before.counter + 2


def test_the_files_content_overrides_the_presets():
    topics = table(known=[new_topic("orders", 3), new_topic("BenchmarkTest", 7)])
    assert topics.find("orders").write_queue_nums == 3
    assert topics.find("BenchmarkTest").write_queue_nums == 7


def test_system_and_internal_names_are_distinguished():
    topics = table()
    assert topics.is_system("TBW102")
    assert topics.is_system("rmq_sys_anything")
    assert topics.is_system("GANTRY_SYS_SEGMENT")
    assert topics.is_internal("GANTRY_SYS_SEGMENT")
    assert not topics.is_internal("TBW102")
    assert not topics.is_system("orders")
    assert not any(topics.is_internal(name) for name in topics.system_names())


def test_a_topic_cannot_be_created_while_its_deletion_is_pending():
    topics = table()
    topics.removing.add("a")
    with pytest.raises(RefusedRequest):
        topics.ensure("a", 1)
    with pytest.raises(RefusedRequest):
        topics.create_for_send("a", "TBW102", 1)


def test_attributes_are_added_and_removed():
    assert change_attributes({}, "+gantry.flush=async,+message.type=FIFO") == {
        "gantry.flush": "async",
        "message.type": "FIFO",
    }
    assert change_attributes({"a": "b", "c": "d"}, "-a") == {"c": "d"}
    assert change_attributes({"a": "b"}, "") == {"a": "b"}


@pytest.mark.parametrize(
    "text", ["a=b", "+a", "+=b", "-a=b", "-", "+gantry.flush=never", "+nonsense=x", "+queue.type=BatchCQ"]
)
def test_malformed_attributes_are_refused(text):
    with pytest.raises(IllegalAttributes):
        change_attributes({}, text)
