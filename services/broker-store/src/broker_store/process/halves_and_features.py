"""The halves of a store and its features, built in the order in which they need each other, and joined by the store's events.

Add a feature by one line in `build_features`. It takes what it needs from the two halves; features never
know each other.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker_store.commit.visible.store_events import StoreListeners
from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import ConfigFile
from broker_store.config_log.table_records import TableRecords
from broker_store.groups.group_records import GroupsFile, KeptGroups, keys_of
from broker_store.groups.offset_record import OffsetAppends
from broker_store.leases.leasing import Leasing
from broker_store.opening.opened_store import OpenedStore
from broker_store.ports import Commands
from broker_store.process.extension_hooks import Hooks
from broker_store.process.foundation import Foundation, Surroundings
from broker_store.process.measuring import RuntimeReader
from broker_store.process.parts.access import Access
from broker_store.process.parts.administration import Administration
from broker_store.process.parts.client_requests import ClientRequests
from broker_store.process.parts.configuration import Configuration
from broker_store.process.parts.leases import WaitingReaders, build_leasing
from broker_store.process.parts.pop import Popping
from broker_store.process.parts.reading import Consuming
from broker_store.process.parts.sending import Sending
from broker_store.process.parts.transactions import build_transactions
from broker_store.reading.read_settings import bind_settings
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.retrying.send_back_handler import Retrying
from broker_store.settling.cursor_copies import CursorCopies
from broker_store.transactions.producer_checks import DecisionRights
from gantry_chassis.machine.environment import Workers

GROUP_SUBJECT = "gantry.group"

Loops = dict[str, Callable[[], Awaitable[None]]]
Roll = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Halves:
    """The sending half, the reading half, and the leases, which use both."""

    sending: Sending
    leasing: Leasing
    consuming: Consuming
    group_records: TableRecords


def build_halves(
    around: Surroundings, store: OpenedStore, foundation: Foundation, sending: Sending, config: BrokerConfig
) -> Halves:
    """Return the halves over a sending half. `config` changes their settings."""
    leasing = build_leasing(around, store, foundation.reading, sending)
    groups = KeptGroups(foundation.reading.groups)
    groups_file = ConfigFile(store.files, f"{store.config_dir}/subscriptionGroup.json")
    group_records = sending.records_of(groups, GroupsFile(groups_file, groups.presets()))
    consuming = _build_consuming(around, store, foundation, sending, leasing, group_records)
    bind_settings(config, consuming.settings, consuming.groups)
    sending.bind_settings(config)
    foundation.care.retention.bind(config)
    if foundation.registration is not None:
        config.bind_number("brokerPermission", foundation.registration.set_broker_permission)
    return Halves(sending, leasing, consuming, group_records)


def listeners_of(
    around: Surroundings, store: OpenedStore, foundation: Foundation, halves: Halves, hooks: Hooks,
    rolls: Sequence[Roll],
) -> StoreListeners:  # fmt: skip
    """Return everything that listens to the store's events. `rolls` append again what only records below a position hold."""
    sending, leasing, consuming = halves.sending, halves.leasing, halves.consuming
    topic_changed = [sending.targets.forget, sending.topic_changed]
    if foundation.registration is not None:
        topic_changed.append(foundation.registration.topic_changed)

    def publish(group: str) -> None:
        around.hints.publish(GROUP_SUBJECT, group.encode())

    return StoreListeners(
        record_placed=sending.appends.place_now,
        readers=hooks.readers(WaitingReaders(consuming.pulls, leasing.waits)),
        topic_changed=topic_changed,
        topic_removed=[store.states.topic_deleted, consuming.topic_deleted, leasing.topic_deleted],
        group_changed=[
            lambda group: halves.group_records.changed(*keys_of(group)),
            publish,
            leasing.group_changed,
        ],
        segment_held=rolls,
        log_cut=sending.appends.work.set,  # the next checkpoint notes it, also where nobody sends
    )


def _build_consuming(
    around: Surroundings,
    store: OpenedStore,
    foundation: Foundation,
    sending: Sending,
    leasing: Leasing,
    group_records: TableRecords,
) -> Consuming:
    return Consuming(
        log=store.log,
        queues=store.queues,
        topics=store.topics,
        index=sending.dispatch.keys,
        index_trouble=around.index_trouble,
        append_internal=sending.internal.append,
        append_offsets=OffsetAppends(sending.appends, store.queues, around.now_ms).append,
        committed=store.states.committed,
        files=around.files,
        config_dir=store.config_dir,
        own_dir=f"{store.directory}/gantry",
        now_ms=around.now_ms,
        environment=store.environment,
        classes=around.classes,
        base=foundation.reading,
        group_records=group_records,
        on_unregister=foundation.locks.unregistered,
        state=RuntimeReader(store, lambda: sending.appends.visible_end, around.now_ms).read,
        before_commit=leasing.offset_set,
        sync_log=store.log.sync,
        broker_name=around.settings.broker_name,
        address=around.address,
        clients=around.clients,
        slaves=tuple if around.group is None else around.group.follower_ids,
    )


class ClosedPeer(Protocol):
    """A closed connection."""

    @property
    def id(self) -> int:
        """Its number."""
        ...

    @property
    def closed_by_client(self) -> bool:
        """Whether the client closed it or died; False if the store closed it or it broke."""
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
    configuration: Configuration,
    access: Access,
    rights: DecisionRights,
) -> list[Feature]:
    """Return all features of one opened store."""
    sending, consuming = halves.sending, halves.consuming
    return [
        _retrying(around, store, sending, consuming),
        foundation.locks,
        _copies(store, consuming, thread),
        build_transactions(around, store, sending, consuming, rights),
        halves.leasing,
        Popping(around, store, halves.leasing, consuming, foundation.registration),
        ClientRequests(around, store, sending, consuming),
        Administration(around, store, consuming, configuration.changes, foundation.care),
        access,
        configuration,
    ]


def all_commands(features: list[Feature]) -> Commands:
    """Return the command table entries of all features."""
    return {code: entry for part in features for code, entry in part.commands().items()}


def all_loops(features: list[Feature]) -> Loops:
    """Return the loops of all features."""
    return {name: loop for part in features for name, loop in part.loops().items()}


def _retrying(around: Surroundings, store: OpenedStore, sending: Sending, consuming: Consuming) -> Retrying:
    return Retrying(
        read_record=store.log.read_record,
        in_thread=sending.reads,
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


def _copies(store: OpenedStore, consuming: Consuming, thread: Workers) -> CursorCopies:
    file = ConfigFile(store.files, f"{store.config_dir}/delayOffset.json")
    return CursorCopies(
        store.states.settled,
        store.queues,
        consuming.offsets,
        file,
        thread,
        store.clock.now_ms,
        store.log.sync,
    )
