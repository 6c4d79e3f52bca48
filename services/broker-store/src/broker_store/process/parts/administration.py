"""Builds the administration handlers that need both halves of the store: progress, units, cleaning, settings, copies."""

from collections.abc import Awaitable, Callable

from broker_store.admin.cleaning_handler import Cleaner, CleaningHandlers
from broker_store.admin.progress_handler import ProgressHandlers
from broker_store.admin.replication_handler import ReplicationHandlers
from broker_store.admin.slave_requests_handler import SlaveRequestHandlers
from broker_store.config.configuration_handler import Changes, ConfigurationHandlers
from broker_store.groups.forbidden_handler import ForbiddenHandlers
from broker_store.metrics.statistics_handler import StatisticsHandlers
from broker_store.opening.opened_store import OpenedStore
from broker_store.ports import Commands
from broker_store.process.foundation import Surroundings
from broker_store.process.parts.reading import Consuming
from broker_store.reading.queries.units_handler import UnitHandlers
from broker_store.requests.deferred_replies import DeferredReplies


class Administration:
    """These handlers as one feature."""

    def __init__(
        self,
        around: Surroundings,
        store: OpenedStore,
        consuming: Consuming,
        changes: Changes,
        cleaner: Cleaner,
    ) -> None:
        self._deferred = DeferredReplies(around.classes["adminBroker"], around.now_ms)
        log = store.log
        self._progress = ProgressHandlers(
            store.topics, store.queues, consuming.clients, consuming.offsets, consuming.keeper,
            consuming.searching, self._deferred, around.now_ms, around.settings.broker_name,
        )  # fmt: skip
        self._units = UnitHandlers(store.topics, store.queues, consuming.clients, consuming.filters.table)
        self._cleaning = CleaningHandlers(cleaner, self._deferred)
        self._replication = ReplicationHandlers(
            lambda: log.written_end, around.group, around.settings.cluster_name, around.settings.broker_name,
            slaves=around.slaves,
        )  # fmt: skip
        self._slave_requests = SlaveRequestHandlers(
            log, store.queues, store.states.settled, consuming.base.readers, self._deferred, around.now_ms
        )
        self._configuration = ConfigurationHandlers(changes)
        self._statistics = StatisticsHandlers(consuming.metrics, around.settings.cluster_name)
        self._forbidden = ForbiddenHandlers(consuming.groups, consuming.group_records)

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        parts = (
            self._progress, self._units, self._cleaning, self._replication,
            self._statistics, self._configuration, self._forbidden, self._slave_requests,
        )  # fmt: skip
        return {code: entry for part in parts for code, entry in part.commands().items()}

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return nothing: it has no loop."""
        return {}

    def closed(self, _peer: object) -> None:
        """Do nothing: no state depends on a connection."""

    async def close(self) -> None:
        """Finish running requests."""
        await self._deferred.close()
