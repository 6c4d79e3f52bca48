"""The reading side of a store as one part: gets arrivals and closed connections, and provides commands.

Owns groups, committed offsets, clients and held pulls. Writes to the log only through `append_internal`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from broker_store.admin.admin_handler import AdminHandlers
from broker_store.admin.connections_handler import ConnectionHandlers
from broker_store.admin.stats_handler import StatsHandlers
from broker_store.commit.topics import OFFSETS_TOPIC
from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.groups.clients import ClientTable
from broker_store.groups.clients_handler import ClientHandlers
from broker_store.groups.committed_offsets import CommittedOffsets
from broker_store.groups.groups_handler import GroupHandlers
from broker_store.groups.offset_copy import OffsetCopy
from broker_store.groups.offset_keeper import BeforeCommit, OffsetKeeper
from broker_store.groups.offset_log import AppendRecord, OffsetLog
from broker_store.groups.offset_samples import samples
from broker_store.groups.offsets_handler import OffsetHandlers
from broker_store.groups.pending_resets import PendingResets
from broker_store.log.files.files import Files
from broker_store.metrics.runtime_info import RuntimeState
from broker_store.metrics.store_metrics import Lag
from broker_store.ports import (
    Commands,
    InternalAppend,
    KeyIndex,
    LogReader,
    Peer,
    QueueTable,
    Saving,
    TopicTable,
)
from broker_store.process.foundation import ReadingBase, local_s
from broker_store.reading.filtered.filter_keeping import Filters
from broker_store.reading.page_cache_protection import groups_too_far_behind
from broker_store.reading.pull_admission import Admission
from broker_store.reading.pull_handler import Pulls
from broker_store.reading.queries.offset_search import Searching
from broker_store.reading.queries.query_handler import QueryHandlers
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.requests.request_classes import RequestClass
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Environment
from gantry_wire.names import SYSTEM_GROUP_PREFIX

SAMPLE_SECONDS = 1.0
SAVE_OFFSETS_SECONDS = 1.0
COPY_OFFSETS_SECONDS = 5.0
EXPIRE_CLIENTS_SECONDS = 10.0

_log = get_logger()


P = TypeVar("P", bound=Pulls)


@dataclass(eq=False)
class Consuming:
    """The reading side."""

    log: LogReader
    queues: QueueTable
    topics: TopicTable
    index: KeyIndex | None
    index_trouble: Callable[[], str | None]
    append_internal: InternalAppend
    append_offsets: AppendRecord
    """Appends a record of committed offsets."""
    committed: CommittedOffsets
    """What the log says of them."""
    files: Files
    config_dir: str
    own_dir: str
    """`gantry/` inside the store."""
    now_ms: Callable[[], int]
    """Store time."""
    environment: Environment
    classes: dict[str, RequestClass]
    base: ReadingBase
    group_records: Saving
    """Records the changes of groups."""
    on_unregister: Callable[[str, str], None]
    """Takes group and client id of a client that leaves a consumer group by itself."""
    before_commit: BeforeCommit
    """Called before each commit of an offset: the leases log it first."""
    sync_log: Callable[[], object]
    """Makes durable what the log has. May be called in any thread; raises LogError."""
    state: Callable[[], RuntimeState]
    broker_name: str
    address: str
    """host:port as advertised to clients."""
    clients: ClientTable
    slaves: Callable[[], Sequence[int]]
    """Returns the broker ids of the followers that can be read now."""

    def __post_init__(self) -> None:
        base = self.base
        self.metrics, self.groups, self.offsets = base.metrics, base.groups, base.offsets
        self.settings, self.in_thread = base.settings, base.in_thread
        self.keeper = self._offset_keeper()
        filter_file = ConfigFile(self.files, f"{self.config_dir}/consumerFilter.json")
        self.filters = Filters(filter_file, self.settings, self.now_ms, base.group_thread)
        self.resets = PendingResets()
        host = self.address.rpartition(":")[0]
        admission = Admission(self.topics, self.groups, self.clients, self.settings, host, self.filters.table)
        self.pulls = self._pulls(admission)
        self._client_handlers = ClientHandlers(
            self.clients, self.groups, self.topics, self.filters.table, self.now_ms, self._steady_ms,
            self.on_unregister,
        )  # fmt: skip
        self._queries = DeferredReplies(self.classes["query"], self.now_ms)
        self._admin = DeferredReplies(self.classes["adminBroker"], self.now_ms)
        self.searching = Searching(self.log, self.in_thread)
        self._register_metrics()

    # --- calls from the rest of the store ---

    def start(self, *, was_stopped: bool) -> None:
        """Load the offsets, once the log is recovered. `was_stopped`: this store wrote last, and stopped in order."""
        self.keeper.start(was_stopped=was_stopped)

    def topic_deleted(self, topic: str) -> None:
        """Drop groups' offsets in a topic, and answer what waits on it."""
        self.keeper.forget_topic(topic)
        self.metrics.forget_topic(topic)
        self.filters.table.forget_topic(topic)
        self.resets.forget_topic(topic)
        self.pulls.drop_topic(topic)

    def closed(self, peer: Peer) -> None:
        """Handle a closed connection."""
        self.pulls.close_peer(peer.id)
        self._client_handlers.close_peer(peer.id)

    def commands(self) -> Commands:
        """Return all entries of the command table."""
        offset_handlers = OffsetHandlers(
            self.offsets, self.keeper, self.groups, self.topics, self.queues, self.log,
            self.resets, self.clients,
        )  # fmt: skip
        group_handlers = GroupHandlers(
            self.groups, self.group_records, self.offsets, self.keeper, self._admin, self.metrics
        )
        return {
            **self.pulls.commands(),
            **offset_handlers.commands(),
            **group_handlers.commands(),
            **self._client_handlers.commands(),
            **self.filters.commands(),
            **ConnectionHandlers(self.clients, self.offsets).commands(),
            **self._query_handlers().commands(),
            **self._stats_handlers().commands(),
            **self._admin_handlers().commands(),
        }

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops by name. Each ends only by cancellation."""
        return {
            "samples": partial(_every, SAMPLE_SECONDS, self._sample),
            "offsets": self._save_offsets,
            "copy of offsets": self._copy_offsets,
            "clients": partial(_every, EXPIRE_CLIENTS_SECONDS, self._expire),
            **self.filters.loops(),
        }

    async def stop(self) -> None:
        """Answer held requests, finish running ones, save all state."""
        await self.pulls.close()
        await self._queries.close()
        await self._admin.close()
        await self.keeper.close()
        await self.filters.stop()
        self.base.readers.close(wait=False)
        self.base.group_thread.close(wait=False)

    # --- loops ---

    def _sample(self) -> None:
        now_ms = self.now_ms()
        self.metrics.sample(now_ms // 1000, local_s(now_ms))

    def _sample_offsets(self) -> None:
        for group, body in samples(self.keeper.take_moved(), self.queues, self.now_ms()):
            self.append_internal(OFFSETS_TOPIC, 0, body, keys=group)

    async def _save_offsets(self) -> None:
        while True:
            await self.keeper.save()
            self._sample_offsets()  # at once: reports estimate consume times from the times of the samples
            await asyncio.sleep(SAVE_OFFSETS_SECONDS)

    async def _copy_offsets(self) -> None:
        while True:
            await asyncio.sleep(COPY_OFFSETS_SECONDS)
            await self.keeper.save_file()

    def _expire(self) -> None:
        self._client_handlers.expire()
        settings = self.settings
        if not settings.protect_broker:
            return
        for group, behind in groups_too_far_behind(self.metrics, settings.fallbehind_bytes_max):
            if (config := self.groups.find(group)) is not None and config.consume_enable:
                _log.warning("group paused: it reads too far behind", group=group, behind_bytes=behind)
                self.groups.set_consume_enable(group, enable=False)

    # --- building ---

    def _offset_keeper(self) -> OffsetKeeper:
        copy = OffsetCopy(
            self.files, self.config_dir, self.own_dir, DataVersionCounter(self.now_ms),
            self.environment.workers(1, "offsets"), self.sync_log,
        )  # fmt: skip
        log = OffsetLog(self.offsets, self.committed, self.append_offsets)
        return OffsetKeeper(self.offsets, self.committed, log, copy, self.before_commit)

    def _pulls(self, admission: Admission) -> Pulls:
        return self._built(Pulls, admission)

    def _built(self, kind: Callable[..., P], admission: Admission) -> P:
        """Return pulls of this kind. A follower's have more."""
        return kind(
            log=self.log,
            queues=self.queues,
            admission=admission,
            offsets=self.offsets,
            resets=self.resets,
            metrics=self.metrics,
            settings=self.settings,
            cold_reads=self.classes["pull"],
            append_internal=self.append_internal,
            in_thread=self.in_thread.leaving_out,
            now_ms=self.now_ms,
            broker_name=self.broker_name,
            slaves=self.slaves,
        )

    def _query_handlers(self) -> QueryHandlers:
        return QueryHandlers(
            log=self.log,
            queues=self.queues,
            topics=self.topics,
            index=self.index,
            index_trouble=self.index_trouble,
            searching=self.searching,
            deferred=self._queries,
            in_thread=self.in_thread,
        )

    def _stats_handlers(self) -> StatsHandlers:
        return StatsHandlers(
            topics=self.topics,
            queues=self.queues,
            groups=self.groups,
            clients=self.clients,
            offsets=self.offsets,
            metrics=self.metrics,
            searching=self.searching,
            deferred=self._admin,
            broker_name=self.broker_name,
            address=self.address,
        )

    def _admin_handlers(self) -> AdminHandlers:
        return AdminHandlers(
            topics=self.topics,
            metrics=self.metrics,
            classes=self.classes,
            state=self.state,
            now_ms=self.now_ms,
            deferred=self._admin,
            in_thread=self.in_thread,
        )

    def _register_metrics(self) -> None:
        watch = self.metrics.watch
        watch("gantry_store_held_pulls", "Pulls that wait for a message.", lambda: self.pulls.held_count)
        watch("gantry_store_consumer_groups", "Groups with a client.", lambda: len(self.clients.consumers))
        watch(
            "gantry_store_producer_groups",
            "Producer groups with a client.",
            lambda: len(self.clients.producers),
        )
        counted = self.metrics.counted
        help_text = "Commits below the known offset."
        counted("gantry_store_offsets_went_back", help_text, lambda: self.offsets.went_back)
        help_text = "How often all committed offsets were written again so that a segment can be deleted."
        counted("gantry_store_offset_dumps", help_text, lambda: self.keeper.dumps)
        self.metrics.watch_lag(self._lags)

    def _lags(self) -> Iterator[Lag]:
        for topic, group, offsets in self.offsets.all():
            if group.startswith(
                SYSTEM_GROUP_PREFIX
            ):  # the txn-checker's offset is kept at its beginning on purpose
                continue
            for queue_id, offset in offsets.items():
                queue = self.queues.find(topic, queue_id)
                if queue is not None:
                    yield Lag(group, topic, queue_id, max(queue.max_offset - offset, 0))

    def _steady_ms(self) -> int:
        return int(self.environment.steady() * 1000)


async def _every(seconds: float, action: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        action()
