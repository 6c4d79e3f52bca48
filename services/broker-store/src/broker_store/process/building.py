"""Builds the halves of a store in the order in which they need each other, and connects the store's events."""

from dataclasses import dataclass

from broker_store.commit.store_events import StoreListeners
from broker_store.config.broker_config import BrokerConfig
from broker_store.leases.leasing import Leasing
from broker_store.opening.opened import OpenedStore
from broker_store.process.foundation import Foundation, Surroundings
from broker_store.process.hooking import Hooks
from broker_store.process.leases import WaitingReaders, build_leasing
from broker_store.process.reading import Consuming, ConsumingParts
from broker_store.process.runtime_state import RuntimeReader
from broker_store.process.sending import Sending
from broker_store.requests.extensions import Extensions, StoreView, load_extensions
from gantry_chassis.logs import get_logger

GROUP_SUBJECT = "gantry.group"

_log = get_logger()


@dataclass(frozen=True, slots=True)
class Halves:
    """The sending half, the reading half, and the leases, which use both."""

    sending: Sending
    leasing: Leasing
    consuming: Consuming


def build_halves(
    around: Surroundings, store: OpenedStore, foundation: Foundation, sending: Sending, config: BrokerConfig
) -> Halves:
    """Return the halves over a sending half. `config` changes their settings."""
    leasing = build_leasing(around, store, foundation.reading, sending)
    consuming = _build_consuming(around, store, foundation, sending, leasing, config)
    sending.bind_settings(config)
    foundation.care.retention.bind(config)
    if foundation.registration is not None:
        config.bind_number("brokerPermission", foundation.registration.set_broker_permission)
    return Halves(sending, leasing, consuming)


def listeners_of(
    around: Surroundings, store: OpenedStore, foundation: Foundation, halves: Halves, hooks: Hooks
) -> StoreListeners:
    """Return everything that listens to the store's events."""
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
            lambda _group: foundation.reading.group_saver.changed(),
            publish,
            leasing.group_changed,
        ],
    )


def _build_consuming(
    around: Surroundings,
    store: OpenedStore,
    foundation: Foundation,
    sending: Sending,
    leasing: Leasing,
    config: BrokerConfig,
) -> Consuming:
    settings = around.settings
    return Consuming(
        ConsumingParts(
            log=store.log,
            queues=store.queues,
            topics=store.topics,
            index=sending.dispatch.keys,
            index_trouble=around.index_trouble,
            append_internal=sending.internal.append,
            files=around.files,
            config_dir=store.config_dir,
            own_dir=f"{store.directory}/gantry",
            now_ms=around.now_ms,
            environment=store.environment,
            classes=around.classes,
            metrics=around.metrics,
            config=config,
            base=foundation.reading,
            on_unregister=foundation.locks.unregistered,
            state=RuntimeReader(store, sending.appends, around.now_ms).read,
            before_commit=leasing.offset_set,
            cluster_name=settings.cluster_name,
            broker_name=settings.broker_name,
            address=around.address,
        )
    )


def build_hooks(around: Surroundings, sending: Sending) -> Hooks:
    """Return the hooks of the configured extensions, started. Raises StartRefused."""
    settings = around.settings
    failed = around.metrics.counters(
        "gantry_store_extension_failures", "Exceptions raised by extensions.", ("extension", "point")
    )

    def note_failure(extension: str, point: str, error: Exception) -> None:
        failed.labels(extension, point).add()
        _log.error(
            "an extension failed; the request continues", extension=extension, point=point, reason=repr(error)
        )

    extensions = Extensions(load_extensions(settings.extensions), note_failure)
    extensions.start(
        StoreView(
            settings.broker_name, settings.cluster_name, settings.region, around.address, around.now_ms,
            sending.internal.append,
        )
    )  # fmt: skip
    return Hooks(extensions, around.now_ms)
