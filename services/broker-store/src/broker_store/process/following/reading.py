"""The reading side of a replica that follows: pulls, queries, clients, and what tools read. Loaded only by stores with replicas.

It is the reading side of every store, over the log that this replica has replayed and over tables that nothing but the replay changes. What
would write is not in its command table. Replay and requests take turns in one loop: a request sees whole records, whole queues and
whole tables. Threads read bytes below the end of what was shown, which no cut and no replay changes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from broker_store.admin.progress_handler import ProgressHandlers
from broker_store.admin.topic_views import TopicViews
from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.config.configuration_handler import ConfigurationHandlers
from broker_store.groups.replayed_offsets import ReplayedOffsets
from broker_store.metrics.runtime_info import RuntimeState
from broker_store.metrics.statistics_handler import StatisticsHandlers
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.opening.opened_store import OpenedStore
from broker_store.opening.opening import Opening
from broker_store.ports import Commands, Peer
from broker_store.process.following.replayed_tables import ReplayedConfig, ReplayedTables
from broker_store.process.foundation import (
    READER_THREADS,
    ReadingBase,
    Surroundings,
    kind_of,
    local_s,
    read_settings,
)
from broker_store.process.group.follower_table import not_leader
from broker_store.process.parts.reading import Consuming
from broker_store.reading.follower_pulls import FollowerPulls
from broker_store.reading.pull_admission import Admission
from broker_store.reading.queries.units_handler import UnitHandlers
from broker_store.reading.read_settings import ReadSettings, bind_settings
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command

LOOPS = ("samples", "clients")
"""The loops of the reading side that save nothing."""
SERVED = frozenset(
    {
        RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, GantryCode.END_PULL,
        RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET, RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_CONSUME_STATS, RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.GET_CONSUMER_CONNECTION_LIST, RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.QUERY_TOPICS_BY_CONSUMER, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CORRECTION_OFFSET, RequestCode.QUERY_CONSUME_QUEUE, RequestCode.VIEW_BROKER_STATS_DATA,
    }
)  # fmt: skip
"""What changes nothing but tables of clients: all that a follower answers beside the messages of its group."""


@dataclass(eq=False)
class FollowerConsuming(Consuming):
    """The parts of the reading side."""

    has_leader: Callable[[], bool]
    """Whether this replica copies from a leader that lives."""

    def _pulls(self, admission: Admission) -> FollowerPulls:
        return self._built(partial(FollowerPulls, has_leader=self.has_leader), admission)


class _LeaderOnly:
    """Stands where the reading side of a leader writes."""

    def when_saved(self, answer: Callable[[RefusedRequest | None], None]) -> None:
        """See Saving."""
        answer(not_leader(""))

    def __call__(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise not_leader("")


@dataclass(slots=True)
class _ShownSettings:
    """Settings that only the leader changes."""

    config: BrokerConfig

    def update(self, changes: Any, answer: Any) -> None:  # noqa: ARG002 - see Changes
        """See Changes."""
        raise not_leader("")


class FollowerReading:
    """The reading side of one life as a follower."""

    def __init__(
        self,
        around: Surroundings,
        opening: Opening,
        values: Mapping[str, str],
        state: Callable[[], RuntimeState],
        own_id: int,
        has_leader: Callable[[], bool],
    ) -> None:
        """`values`: this start's settings under RocketMQ's keys. `state`: for code 28. `own_id`: the broker id of this replica."""
        store, environment, now_ms = opening.store, opening.store.environment, around.now_ms
        reads = read_settings(around.settings)
        config = ReplayedConfig(values, DataVersionCounter(now_ms))
        tables = ReplayedTables(around.settings, store.states.config, config, now_ms, environment.steady)
        self._tables = tables
        bind_settings(config, reads, tables.groups)
        base = _base(around, store, tables, reads)
        leader_only = _LeaderOnly()
        self._consuming = consuming = FollowerConsuming(
            log=store.log,
            queues=store.queues,
            topics=tables.topics,
            index=store.index,
            index_trouble=around.index_trouble,
            append_internal=leader_only,
            append_offsets=leader_only,
            committed=store.states.committed,
            files=around.files,
            config_dir=store.config_dir,
            own_dir=f"{store.directory}/gantry",
            now_ms=now_ms,
            environment=environment,
            classes=around.classes,
            base=base,
            group_records=leader_only,
            on_unregister=_holds_no_lock,
            state=state,
            before_commit=leader_only,
            sync_log=store.log.sync,
            broker_name=around.settings.broker_name,
            address=around.address,
            clients=around.clients,
            slaves=lambda: (own_id,),
            has_leader=has_leader,
        )
        assert isinstance(consuming.pulls, FollowerPulls)
        self.pulls = consuming.pulls
        self._deferred = DeferredReplies(around.classes["adminBroker"], now_ms)
        self._tools = self._tool_handlers(around, opening, config)
        self._loops: list[asyncio.Task[None]] = []

    def _tool_handlers(self, around: Surroundings, opening: Opening, config: ReplayedConfig) -> Sequence[Any]:
        consuming, topics, queues = self._consuming, self._tables.topics, opening.store.queues
        return (
            TopicViews(topics),
            ProgressHandlers(
                topics, queues, consuming.clients, consuming.offsets, consuming.keeper, consuming.searching, self._deferred,
                around.now_ms, around.settings.broker_name,
            ),
            UnitHandlers(topics, queues, consuming.clients, consuming.filters.table),
            StatisticsHandlers(consuming.metrics, around.settings.cluster_name),
            ConfigurationHandlers(_ShownSettings(config)),
        )  # fmt: skip

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        table: Commands = dict(self._consuming.commands())
        for part in self._tools:
            table |= part.commands()
        served = {code: table[code] for code in SERVED}
        return {code: (name, _UpToDate(handler, self._tables)) for code, (name, handler) in served.items()}

    def start(self) -> None:
        """Begin the loops."""
        loops = self._consuming.loops()
        self._loops = [asyncio.ensure_future(loops[name]()) for name in LOOPS]

    def replayed(self) -> None:
        """Answer the pulls that wait for what was replayed."""
        if self.pulls.held_count:
            self.pulls.replayed()

    def closed(self, peer: Peer) -> None:
        """Handle a closed connection."""
        self._consuming.closed(peer)

    async def close(self) -> None:
        """Answer held pulls, and finish running requests."""
        for task in self._loops:
            task.cancel()
        if self._loops:
            await asyncio.wait(self._loops)
        await self._consuming.stop()
        await self._deferred.close()


class _UpToDate:
    """A handler that finds the tables as the log says."""

    def __init__(self, handler: Callable[[Peer, Command], bytes | None], tables: ReplayedTables) -> None:
        self._handler, self._tables = handler, tables

    def __call__(self, peer: Peer, command: Command) -> bytes | None:
        self._tables.refresh()
        return self._handler(peer, command)


def _holds_no_lock(_group: str, _client_id: str) -> None:
    """Release nothing: only a leader locks queues."""


def _base(
    around: Surroundings, store: OpenedStore, tables: ReplayedTables, reads: ReadSettings
) -> ReadingBase:
    now_ms, environment = around.now_ms, store.environment
    return ReadingBase(
        metrics=StoreMetrics(around.metrics, local_s(now_ms()), lambda name: kind_of(tables.topics, name)),
        groups=tables.groups,
        groups_found=None,
        group_thread=environment.workers(1, "groups"),
        offsets=ReplayedOffsets(store.states.committed),
        settings=reads,
        readers=environment.workers(READER_THREADS, "reader"),
        repaired=around.repaired,
    )
