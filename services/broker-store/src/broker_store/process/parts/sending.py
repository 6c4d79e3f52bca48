"""The sending half of a store, assembled: group commit, checks, topics, idempotency, and their loops."""

import asyncio
from collections.abc import Awaitable, Callable

from broker_store.admin.topic_removal import TopicRemoval
from broker_store.admin.topics_handler import TopicHandler
from broker_store.commit.appends import Appends, AtTurnEnd, CommitCalls
from broker_store.commit.flusher import Flusher
from broker_store.commit.special_sends import SpecialSends
from broker_store.commit.stamp import Stamp
from broker_store.commit.targets import Targets
from broker_store.commit.topics import queue_count
from broker_store.commit.visible.dispatch import Dispatch
from broker_store.commit.visible.visible_keys import VisibleKeys
from broker_store.config.broker_config import BrokerConfig, read_switch
from broker_store.config.saver import Saver
from broker_store.config_log.exports import TableExport, TableFile
from broker_store.config_log.table_records import KeptTable, TableRecords
from broker_store.config_log.topics_table import KeptTopics, TopicsFile, topic_key
from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.errors import LogStopped
from broker_store.opening.checkpoints import Checkpoints
from broker_store.opening.opened_store import OpenedStore
from broker_store.opening.queue_note import encode_note, save_note, with_retired
from broker_store.ports import Commands, Handler
from broker_store.process.foundation import Foundation
from broker_store.process.parts.delays import build_delays, build_recalls
from broker_store.process.parts.settling import build_settling
from broker_store.reading.repaired_reads import RepairedReads, RepairRequests
from broker_store.requests.request_classes import RequestClass
from broker_store.retrying.retries import Retries
from broker_store.sending.idempotency import Remembered
from broker_store.sending.internal_sends import InternalSends
from broker_store.sending.keyed import KeyedSends
from broker_store.sending.plain_sends import PlainSends
from broker_store.sending.send_handler import SendHandler
from broker_store.settling.settle_handler import SettlingHandlers
from broker_store.state_records.entry_log import EntryLog
from broker_store.transactions.half_messages.half_sends import HalfSends
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_wire.messages.ids import UniqueIds, unpack_host

LATE_CHECK_SECONDS = 0.1
CHECKPOINT_LOOK_SECONDS = 0.25

_log = get_logger()


def _never(*_: object) -> bool:
    """Take nothing: used where a fast path is off."""
    return False


class Sending:
    """Everything that changes the log. Built once over an opened store, inside the running loop."""

    def __init__(
        self, store: OpenedStore, classes: dict[str, RequestClass], foundation: Foundation,
        at_turn_end: AtTurnEnd, flusher: Flusher, thread: Workers, earlier: Checkpoints | None = None, *, fast_paths: bool,
    ) -> None:  # fmt: skip
        """Without `fast_paths` every message is its own entry of the group commit. `earlier`: the checkpoints of a replica that has followed."""
        settings, repaired = store.settings, foundation.reading.repaired
        self.store = store
        self.dispatch = Dispatch(None if store.index is None else VisibleKeys(store.index), store.events)
        self._loop, self._flusher = asyncio.get_running_loop(), flusher
        self.appends = _build_appends(store, classes["send"], self.dispatch, foundation, at_turn_end, flusher)
        stamp = build_stamp(store)
        self.targets = Targets(
            store.topics, store.queues, flush_sync=settings.flush == "sync",
            broker_address=unpack_host(store.store_host)[0], broker_permission=settings.broker_permission,
            random_below=store.environment.rng.randrange,
        )  # fmt: skip
        self.retries = Retries(
            store.topics, self.targets, foundation.reading.groups.find_or_create, foundation.locks.is_orderly
        )
        self.delays = build_delays(store)
        self.keyed = KeyedSends(
            store.window, self.appends, self._is_readable, store.log.read_record, store.clock.now_ms,
            self.delays.reply_place_of, None if repaired is None else RepairRequests(repaired).may_come,
        )  # fmt: skip
        now_ms, copies = store.clock.now_ms, store.states.transactions
        self.halves = halves = HalfSends(store.queues, self.appends, copies, self.delays.check)
        take_half, take_known_half = (halves.take, halves.take_known) if fast_paths else (_never, _never)
        self.special = SpecialSends(self.delays.prepare, halves.prepare, take_half, take_known_half)
        self.internal = InternalSends(store.topics, self.targets, store.queues, self.appends, stamp, now_ms)
        self._thread = thread
        entries = store.states.config
        self.config_log = EntryLog(
            self.appends, store.queues, entries, now_ms, lambda _entry: None, "give shorter attributes"
        )
        topics = KeptTopics(store.topics)
        self.topic_records = self.records_of(topics, TopicsFile(store.topics_file, topics.presets()))
        self._note_saver = Saver("queues.json", self._encode_note, self._store_note, thread)
        self.removal = TopicRemoval(
            store.topics, store.queues, self.appends, self._note_saver, store.clock.now_ms,
            store.events.topic_removed,
        )  # fmt: skip
        self.plain = PlainSends(
            self.targets, self.appends, stamp, settings.message_bytes_max, is_on=fast_paths
        )
        self._sends = SendHandler(
            self.targets, self.appends, stamp, self.retries, self.keyed, self.special, self.plain,
            settings.accept_sends_after_ms, store.clock.now_ms,
        )  # fmt: skip
        self.topic_commands = TopicHandler(
            store.topics, self.topic_records, self.removal, self.appends.flush, foundation.when_known
        )
        self.reads = RepairedReads(asyncio.to_thread, repaired)
        self.settling = build_settling(
            store, self.appends, self.targets, at_turn_end, foundation.care, self.reads, fast_path=fast_paths
        )
        self.settling_handlers = SettlingHandlers(
            self.settling, store.clock.now_ms, any_host=settings.claim_any_host
        )
        self._recalls = build_recalls(store, self.delays, self.targets, self.appends)
        self.checkpoints = Checkpoints(store, self._visible_ms, self._is_topic_owed, thread, earlier)

    def commands(self) -> Commands:
        """Return the table entries of this half."""
        return {
            **self._sends.commands(),
            **self.topic_commands.commands(),
            **self._recalls.commands(),
            **self.settling_handlers.commands(),
        }

    @property
    def send_one(self) -> Handler:
        """Return the handler of single sends, which `plain.take` may precede."""
        return self._sends.single

    def bind_settings(self, config: BrokerConfig) -> None:
        """Let code 25 change the sending side's settings."""
        topics, targets, sends = self.store.topics, self.targets, self.appends.sends

        def set_auto_create(value: str) -> None:
            topics.set_auto_create(enable=read_switch(value))

        def set_permission(value: int) -> None:
            targets.set_broker_permission(value)
            topics.version.bump()

        config.bind_number("sendThreadPoolQueueCapacity", sends.set_capacity)
        config.bind_number("waitTimeMillsInSendQueue", sends.set_wait_ms_max)
        config.bind_number("maxMessageSize", self.plain.set_body_bytes_max)
        config.bind("autoCreateTopicEnable", set_auto_create)
        config.bind_number("brokerPermission", set_permission)

    def start(self) -> None:
        """Accept sends: recovery is over, and the store's events are connected."""
        self.store.log.prezero.start(self.store.environment.make_thread)
        self._flusher.start(self.appends.synced, self.appends.failed)
        self.settling.log_foreign_floors()

    def records_of(self, table: KeptTable, file: TableFile) -> TableRecords:
        """Return what records the changes of a table."""
        entries = self.store.states.config
        return TableRecords(
            table,
            entries,
            self.config_log,
            TableExport(table.table, file, entries, table.version, self._thread),
        )

    async def look_after_flushes(self) -> None:
        """With asynchronous flush, sync everything within its interval, and answer entries that wait too long.

        Supervised.
        """
        log, interval_s = self.store.log, self.store.settings.flush_interval_ms / 1000
        pause_s = min(interval_s / 2, LATE_CHECK_SECONDS)
        work = self.appends.work
        work.set()  # the start may have written records
        while True:
            await work.wait()
            await asyncio.sleep(pause_s)
            is_behind = log.written_end > log.durable_end and log.state is not LogState.STOPPED
            if is_behind:
                self._flusher.request()
            self.appends.answer_late()
            if not is_behind and self.appends.is_idle:
                work.clear()

    async def take_checkpoints(self) -> None:
        """Take a checkpoint when enough time or log has passed and something changed. Supervised."""
        settings, taken_s = self.store.settings, self._loop.time()
        while True:
            if not self.checkpoints.has_work:
                await self.appends.work.wait()
            await asyncio.sleep(min(CHECKPOINT_LOOK_SECONDS, settings.checkpoint_seconds))
            behind = self.checkpoints.behind_bytes
            due = self._loop.time() - taken_s >= settings.checkpoint_seconds
            if behind >= settings.checkpoint_bytes or (due and self.checkpoints.has_work):
                taken_s = self._loop.time()
                await self._take_checkpoint()

    async def _take_checkpoint(self) -> None:
        if self.store.log.state is LogState.STOPPED:
            return
        try:
            position = await self.checkpoints.take()
        except (OSError, LogStopped) as error:
            _log.warning("checkpoint failed, the last one stays valid", reason=str(error))
        else:
            # Topics made and deleted in a loop would fill the memory. The snapshot says that they are deleted.
            self.store.states.config.drop_deletions(position)

    async def drain(self, seconds: float) -> None:
        """Wait until submitted entries are durable and answered, at most this long."""
        self.appends.flush()
        end_s = self._loop.time() + seconds
        while not self.appends.is_idle and self._loop.time() < end_s:
            self._flusher.request()
            await asyncio.sleep(0.005)

    async def stop(self, save_configuration: Callable[[], Awaitable[None]]) -> None:
        """Save all state and leave the directory as after an orderly stop, if the disk allows it.

        `save_configuration` writes what nothing changes any more.
        """
        self.settling.ahead.close()
        await self.drain(self.store.settings.drain_seconds)
        await save_configuration()
        await self._note_saver.close()
        await self._flusher.stop()
        await self.checkpoints.close()
        self.store.log.close()

    def _visible_ms(self) -> int:
        return self.appends.visible_ms

    def _is_topic_owed(self) -> bool:
        return bool(self.topic_records.owed)

    def _is_readable(self, topic: str, first: Remembered) -> bool:
        """Whether a key's first message still exists: neither its topic was deleted nor its part of the log."""
        queue = self.store.queues.find(topic, first.queue_id)
        if queue is None or first.position < self.store.log.min_position:
            return False
        return queue.min_offset <= first.queue_offset < queue.max_offset

    def topic_changed(self, topic: str) -> None:
        """Record a topic. Open the queues of one that was created again."""
        config = self.store.topics.find(topic)
        if config is not None:
            self.store.queues.open_again(topic, queue_count(config))
        self.topic_records.changed(topic_key(topic))

    def _encode_note(self) -> bytes:
        """Return the note of the last checkpoint with the topics deleted since.

        Empty where there was none, and the whole log is walked.
        """
        note = self.checkpoints.note
        return b"" if note is None else encode_note(with_retired(note, self.store.queues))

    def _store_note(self, content: bytes) -> None:
        if content:
            save_note(self.store.note_file, content, self.checkpoints.position)


def _build_appends(
    store: OpenedStore, sends: RequestClass, dispatch: Dispatch, foundation: Foundation,
    at_turn_end: AtTurnEnd, flusher: Flusher,
) -> Appends:  # fmt: skip
    settings = store.settings
    sends.set_capacity(settings.send_pending_max)
    sends.set_wait_ms_max(settings.send_wait_ms_max)
    calls = CommitCalls(
        at_turn_end, asyncio.get_running_loop().call_later, flusher.request, foundation.care.disk_full_met,
        foundation.reading.metrics, flusher.holds_all, lambda: flusher.accepts_sends, flusher.may_answer_alone,
    )  # fmt: skip
    return Appends(
        store.log, dispatch, store.clock, calls, sends, store.store_host, settings.flush_timeout_ms / 1000,
        store.recovered_ms,
    )  # fmt: skip


def build_stamp(store: OpenedStore) -> Stamp:
    """Return the stamp with this broker's properties."""
    ids = UniqueIds(
        store.store_host[:-4], store.environment.process_id, store.environment.rng.getrandbits(32)
    )
    return Stamp(
        store.settings.region,
        store.settings.cluster_name,
        trace_on=store.settings.trace_on,
        next_unique_key=lambda: ids.next(store.clock.now_ms()),
    )
