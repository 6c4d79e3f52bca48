"""Builds POP over the leases."""

from collections.abc import Awaitable, Callable

from broker_store.leases.leasing import Leasing
from broker_store.opening.opened_store import OpenedStore
from broker_store.pop.ack_handler import PopAckHandlers
from broker_store.pop.assignments import AssignmentHandlers
from broker_store.pop.pop_handler import PopHandlers
from broker_store.ports import Commands
from broker_store.process.foundation import Surroundings
from broker_store.process.parts.reading import Consuming
from broker_store.process.registration import Registration
from broker_store.requests.deferred_replies import DeferredReplies


class Popping:
    """These handlers as one feature."""

    def __init__(
        self,
        around: Surroundings,
        store: OpenedStore,
        leasing: Leasing,
        consuming: Consuming,
        registration: Registration | None,
    ) -> None:
        broker = around.settings.broker_name
        self._deferred = DeferredReplies(around.classes["ack"], around.now_ms)
        assigning = DeferredReplies(around.classes["loadBalance"], around.now_ms)
        self._all_deferred = (self._deferred, assigning)
        route = None if registration is None else registration.route
        self._parts = (
            PopHandlers(
                leasing.receiver, leasing.waits, leasing.receiver.opener, store.states.leases, store.queues, consuming.groups,
                broker,
            ),
            PopAckHandlers(leasing.acker, leasing.receiver, store.topics, store.queues, self._deferred),
            AssignmentHandlers(
                store.topics, consuming.groups, consuming.clients, consuming.group_records, assigning, route, broker,
            ),
        )  # fmt: skip

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {code: entry for part in self._parts for code, entry in part.commands().items()}

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return nothing: it has no loop."""
        return {}

    def closed(self, _peer: object) -> None:
        """Do nothing: the leases' waits end with the connection."""

    async def close(self) -> None:
        """Finish running requests."""
        for deferred in self._all_deferred:
            await deferred.close()
