"""The features of a store beside sending and reading, behind one interface. Builds and combines them.

Add a feature by one line in `build_features`. It takes what it needs from the two halves; features never
know each other.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from broker_store.config.config_files import ConfigFile
from broker_store.config.runtime_config_file import RuntimeConfigFile
from broker_store.opening.opened import OpenedStore
from broker_store.ports import Commands
from broker_store.process.administration import Administration
from broker_store.process.building import Halves
from broker_store.process.client_requests import ClientRequests
from broker_store.process.foundation import Foundation, Surroundings
from broker_store.process.reading import Consuming
from broker_store.process.sending import Sending
from broker_store.process.transactions import build_transactions
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.retrying.send_back_handler import Retrying, RetryingParts
from broker_store.settling.cursor_copies import CursorCopies
from gantry_chassis.environment import Workers

Loops = dict[str, Callable[[], Awaitable[None]]]


class ClosedPeer(Protocol):
    """A closed connection."""

    @property
    def id(self) -> int:
        """Its number."""
        ...

    @property
    def closed_here(self) -> bool:
        """Whether the store closed it, not the client."""
        ...


class Feature(Protocol):
    """One feature."""

    def commands(self) -> Commands:
        """Return its entries of the command table."""
        ...

    def loops(self) -> Loops:
        """Return its background loops by name."""
        ...

    def closed(self, peer: ClosedPeer, /) -> None:
        """Handle a closed connection."""
        ...

    async def close(self) -> None:
        """Finish running requests and save all state. Sends are drained afterwards."""
        ...


def build_features(
    around: Surroundings,
    store: OpenedStore,
    foundation: Foundation,
    halves: Halves,
    thread: Workers,
    kept: RuntimeConfigFile,
) -> list[Feature]:
    """Return all features of one opened store."""
    sending, consuming = halves.sending, halves.consuming
    return [
        _retrying(around, store, sending, consuming),
        foundation.locks,
        _copies(store, consuming, thread),
        build_transactions(around, store, sending, consuming),
        halves.leasing,
        ClientRequests(around, store, sending, consuming),
        Administration(around, store, consuming, kept, foundation.care),
    ]


def all_commands(features: list[Feature]) -> Commands:
    """Return the command table entries of all features."""
    return {code: entry for part in features for code, entry in part.commands().items()}


def all_loops(features: list[Feature]) -> Loops:
    """Return the loops of all features."""
    return {name: loop for part in features for name, loop in part.loops().items()}


def _retrying(around: Surroundings, store: OpenedStore, sending: Sending, consuming: Consuming) -> Retrying:
    return Retrying(
        RetryingParts(
            read_record=store.log.read_record,
            topics=store.topics,
            targets=sending.targets,
            queues=store.queues,
            appends=sending.appends,
            delays=sending.delays,
            retries=sending.retries,
            deferred=DeferredReplies(around.classes["send"], around.now_ms),
            consumer_of=consuming.clients.consumer_name,
            broker_ip=around.address.rpartition(":")[0],
            on_sent_back=consuming.metrics.on_sent_back,
            rng=store.environment.rng,
        )
    )


def _copies(store: OpenedStore, consuming: Consuming, thread: Workers) -> CursorCopies:
    file = ConfigFile(store.files, f"{store.config_dir}/delayOffset.json")
    return CursorCopies(
        store.states.settled, store.queues, consuming.offsets, file, thread, store.clock.now_ms
    )
