"""What a snapshot of a store shows: of a store that serves, all that is confirmed; of a replica that follows, what it has replayed.

A follower replays only what its group confirms, so its snapshot shows nothing that a takeover could take back. Its files of `config` are those of its
last lead, or of nobody: what the log says of topics and committed offsets is written into the snapshot instead.
"""

from collections.abc import Mapping

from broker_store.config_log.config_entry import Table
from broker_store.config_log.topics_table import KeptTopics, TopicsFile
from broker_store.groups.offset_file import OFFSETS_FILE, encode_offsets
from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.snapshot import Content
from broker_store.opening.opened_store import OpenedStore

TOPICS_FILE = "topics.json"


def served(store: OpenedStore, origin: str) -> Content:
    """Return what a store shows that serves. `origin` names the log that its group shares; empty without a group."""
    log_id = origin or store.checkpoint.log_id.hex()
    return Content(store.log, log_id, store.log.confirm, _units(store), {})


def followed(store: OpenedStore, origin: str, replayed_end: int) -> Content | None:
    """Return what a replica shows that follows. Nothing while it knows no record of its group, and so no name of its log."""
    if not origin:
        return None
    return Content(store.log, origin, replayed_end, _units(store), _tables(store))


def _units(store: OpenedStore) -> list[ConsumeQueue]:
    return [queue.units for queue in store.queues.all()]


def _tables(store: OpenedStore) -> Mapping[str, bytes]:
    """Return the files of topics and of committed offsets, as the replayed log says."""
    topics, committed = KeptTopics(store.topics), store.states.committed
    version = store.topics.version.value
    live = store.states.config.live(Table.TOPICS)
    return {
        TOPICS_FILE: TopicsFile(store.topics_file, topics.presets()).encode(live, version, None),
        OFFSETS_FILE: encode_offsets(committed.all(), version, committed.number),
    }
