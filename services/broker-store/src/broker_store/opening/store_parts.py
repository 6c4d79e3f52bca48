"""Makes the parts of a store from what its directory holds: log, queues, index, tables, key window. Recovers nothing."""

from dataclasses import dataclass

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.message import Mode
from broker_store.commit.queues import QueueTable
from broker_store.commit.system_records import Preambles
from broker_store.commit.topics import SEGMENT_TOPIC, load_topics, read_topics
from broker_store.commit.visible.store_events import StoreEvents
from broker_store.config.config_files import ConfigFile
from broker_store.config.delay_levels import parse_levels
from broker_store.config_log.topics_table import found_file
from broker_store.derived import SnapshotFiles
from broker_store.log.checkpoint.checkpoint import Checkpoint
from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.commit_log.scan import ScannedRecord
from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.consume_queues.unit_journal import UnitJournal
from broker_store.log.files.file_pool import FilePool
from broker_store.log.files.files import Files
from broker_store.log.index.index import IndexFiles
from broker_store.log.settings import LogSettings
from broker_store.opening.derived_states import make_states
from broker_store.opening.opened_store import OpenedStore
from broker_store.sending.idempotency import Window
from broker_store.sending.key_journal import KeyJournal
from broker_store.settings import Settings
from broker_store.settling.decided.mark import records_together
from gantry_chassis.machine.environment import Environment

_PREAMBLE_TOPIC = SEGMENT_TOPIC.encode()
FRESH_BYTES_MAX = 32 * 1024 * 1024
"""Newest log bytes that a replica keeps in memory for its followers."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A store directory, and what surrounds it."""

    settings: Settings
    files: Files
    clock: StoreClock
    store_host: bytes
    environment: Environment


def open_parts(
    found: Directory, checkpoint: Checkpoint, events: StoreEvents, topics_file: ConfigFile, boot_count: int
) -> OpenedStore:
    """Return the parts of a store with what their files hold, before anything is recovered."""
    settings, files, clock = found.settings, found.files, found.clock
    directory = str(settings.store_dir)
    log_settings = LogSettings(
        segment_bytes=settings.segment_bytes,
        queue_file_units=settings.queue_file_units,
        index_slots=settings.index_slots,
        index_entries=settings.index_entries,
        prezero_bytes=settings.zero_ahead_bytes,
        free_bytes_min=settings.free_bytes_min,
        reserve_bytes=settings.ballast_bytes,
        checkpoint_bytes=settings.checkpoint_bytes,
    )
    pool = FilePool(files)

    def open_units(topic: str, queue_id: int) -> ConsumeQueue:
        return ConsumeQueue(pool, f"{directory}/consumequeue/{topic}/{queue_id}", log_settings)

    queues = QueueTable(open_units)
    content = topics_file.load()
    known = None if content is None else read_topics(content)
    mode = Mode.SYNC if settings.flush == "sync" else Mode.ASYNC
    preambles = Preambles(queues, clock, found.store_host, mode, events.record_placed)
    log = _open_log(found, log_settings, preambles, checkpoint)
    return OpenedStore(
        settings=settings,
        files=files,
        clock=clock,
        environment=found.environment,
        store_host=found.store_host,
        checkpoint=checkpoint,
        log=log,
        queues=queues,
        index=IndexFiles(files, f"{directory}/index", log_settings) if settings.index_enable else None,
        topics=load_topics(known, settings, clock, events.topic_changed),
        topics_file=topics_file,
        topics_found=found_file(topics_file, content, is_table=known is not None),
        window=Window(
            settings.idempotency_window_seconds * 1000, settings.idempotency_keys_max, clock.before
        ),
        journal=KeyJournal(files, f"{directory}/gantry/keys"),
        unit_journal=UnitJournal(files, f"{directory}/gantry/units"),
        note_file=ConfigFile(files, f"{directory}/gantry/queues.json"),
        events=events,
        levels=parse_levels(settings.delay_levels),
        states=make_states(queues),
        snapshots=SnapshotFiles(files, directory),
        boot_count=boot_count,
    )


def _open_log(
    found: Directory, settings: LogSettings, preambles: Preambles, checkpoint: Checkpoint
) -> CommitLog:
    files, directory = found.files, f"{found.settings.store_dir}/commitlog"
    if not found.settings.replica:
        return CommitLog(files, directory, settings, preambles.build, preambles.on_placed, checkpoint)
    from broker_store.replication.kept_file import KeptFile
    from broker_store.replication.replica_log import ReplicaLog, ReplicaPart, Runs

    begin = KeptFile(files, str(found.settings.store_dir)).kept.begin
    return ReplicaLog(
        files, directory, settings, preambles.build, preambles.on_placed, checkpoint,
        ReplicaPart(Runs(records_together, is_preamble), FRESH_BYTES_MAX, begin),
    )  # fmt: skip


def is_preamble(record: ScannedRecord) -> bool:
    """Whether a record is one of the first of a segment, which say how queues continue."""
    return record[7] == _PREAMBLE_TOPIC
