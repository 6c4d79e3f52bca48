"""Builds the parts that send requests to clients for others: resets, relays, replies."""

from collections.abc import Awaitable, Callable

from broker_store.client_requests.relays.relay_handler import Relays
from broker_store.client_requests.replies.reply_handler import Replies
from broker_store.client_requests.resetting.reset_handler import Resetting
from broker_store.opening.opened_store import OpenedStore
from broker_store.ports import Commands
from broker_store.process.foundation import Surroundings
from broker_store.process.parts.reading import Consuming
from broker_store.process.parts.sending import Sending, build_stamp
from broker_store.requests.deferred_replies import DeferredReplies


class ClientRequests:
    """These parts as one feature. Each request waits in its request class."""

    def __init__(
        self, around: Surroundings, store: OpenedStore, sending: Sending, consuming: Consuming
    ) -> None:
        admin_class, name = around.classes["adminBroker"], around.settings.broker_name
        self._resets = DeferredReplies(admin_class, around.now_ms)
        self._asking = [
            DeferredReplies(admin_class, around.now_ms),
            DeferredReplies(around.classes["reply"], around.now_ms),
        ]
        relays, replies = self._asking
        self.resetting = Resetting(
            store.topics, consuming.groups, store.queues, consuming.clients, consuming.offsets,
            consuming.keeper, consuming.pulls, consuming.resets, consuming.searching, consuming.settings,
            self._resets, name, store.states.leases.delivered_from,
        )  # fmt: skip
        self._relays = Relays(consuming.clients, store.topics, store.log, consuming.in_thread, relays, name)
        self._replies = Replies(
            consuming.clients, sending.targets, sending.appends, build_stamp(store), around.settings,
            replies, around.now_ms, around.settings.message_bytes_max,
        )  # fmt: skip

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {**self.resetting.commands(), **self._relays.commands(), **self._replies.commands()}

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return nothing: it has no loop."""
        return {}

    def closed(self, _peer: object) -> None:
        """Do nothing: a closed connection ends its own requests."""

    async def close(self) -> None:
        """Finish resets. Requests that wait for a client are cancelled, because the connections end anyway."""
        await self._resets.close()
        for deferred in self._asking:
            await deferred.cancel()
