"""The topics of an opened store: which of topics.json and the log counts, and what the log alone knows of topics."""

from collections.abc import Mapping

from broker_store.commit.topics import TopicTable, queue_count
from broker_store.config_log import topics_table
from broker_store.config_log.config_entry import Table
from broker_store.opening.opened_store import OpenedStore
from gantry_chassis.logs.structured import get_logger
from gantry_wire.names import SCHEDULE_TOPIC

_log = get_logger()


def have_topics_gone(store: OpenedStore, covered: int) -> bool:
    """Whether topics.json was lost and the log has no topics, in a directory of an earlier version with a checkpoint at `covered`.

    An older backup lacks topics that only waiting messages name, perhaps below the checkpoint.
    """
    is_walked = not store.log.segments or covered <= store.log.min_position
    is_lost = store.topics_file.exists() and store.topics_file.has_lost_newest
    return not is_walked and is_lost and store.states.config.newest(Table.TOPICS) is None


def settle_topics(store: OpenedStore) -> None:
    """Let the newer of topics.json and the log count. The log is read to its end."""
    store.topics_origin = topics_table.settle_topics(
        store.topics, store.states.config, store.topics_found, was_stopped=store.was_stopped
    )


def forget_topic(topics: TopicTable, topic: str, deleted_ms: int) -> None:
    """Repeat a deletion that topics.json does not hold. One that it holds may precede a topic created again.

    Where the log counts, its own topics replace these.
    """
    if topics.loaded_ms < deleted_ms and topics.find(topic) is not None and not topics.is_system(topic):
        topics.delete(topic)


def open_again(store: OpenedStore) -> None:
    """Open the queues of topics that were deleted and created again, with or without a message since."""
    for topic, config in store.topics.all().items():
        store.queues.open_again(topic, queue_count(config))


def adopt_topics(store: OpenedStore, awaited: Mapping[str, int]) -> None:
    """Create the configuration of topics that only messages know: RocketMQ wrote them, or their record could not be stored.

    `awaited`: destinations of waiting messages, with the queues they need.
    """
    queues, counts = store.queues, dict[str, int]()
    for topic in queues.topics():
        of_topic = list(queues.of_topic(topic))
        if any(queue.max_offset > queue.min_offset for queue in of_topic):
            counts[topic] = max(queue.queue_id for queue in of_topic) + 1
    for topic, count in awaited.items():
        counts[topic] = max(count, counts.get(topic, 0))
    for topic, count in counts.items():
        _adopt(store, topic, count)


def _adopt(store: OpenedStore, topic: str, count: int) -> None:
    if topic == SCHEDULE_TOPIC:
        store.topics.keep_delay_queues(count)  # removed levels whose messages still wait
    elif store.topics.find(topic) is None:
        store.topics.ensure(topic, count)
        _log.warning("topic found only in the log: configuration created again", topic=topic, queues=count)
