"""Builds the reading side and the registration from settings and an opened store."""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.config.broker_config import BrokerConfig
from broker_store.log.files import Files
from broker_store.opening.opening import OpenedStore
from broker_store.process.hooking import Hooks
from broker_store.process.reading import Consuming, ConsumingParts
from broker_store.process.registration import Identity, Registration
from broker_store.process.runtime_state import RuntimeReader
from broker_store.process.sending import Sending
from broker_store.reading.read_settings import ReadSettings
from broker_store.requests.extensions import Extensions, StoreView, load_extensions
from broker_store.requests.request_classes import RequestClass
from broker_store.settings import Settings
from gantry_chassis.logs import get_logger
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_link.pool import ConnectionPool

GROUP_SUBJECT = "gantry.group"

_log = get_logger()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What exists independently of the opened store."""

    settings: Settings
    files: Files
    classes: dict[str, RequestClass]
    metrics: Metrics
    now_ms: Callable[[], int]
    hints: Hints
    pool: ConnectionPool
    address: str
    """host:port as advertised to clients."""
    index_trouble: Callable[[], str | None]


def build_consuming(
    around: Surroundings, store: OpenedStore, sending: Sending, config: BrokerConfig
) -> Consuming:
    """Return the reading side."""
    settings = around.settings
    reads = ReadSettings(
        broker_permission=settings.broker_permission,
        long_polling_enable=settings.long_polling_enable,
        property_filter_enable=settings.property_filter_enable,
        server_side_reset=settings.server_side_reset,
        protect_broker=settings.protect_broker,
        fallbehind_bytes_max=settings.fallbehind_bytes_max,
    )
    reads.set_pull_bytes_max(settings.pull_bytes_max)
    runtime = RuntimeReader(store, sending.appends, around.now_ms)
    consuming = Consuming(
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
            settings=reads,
            state=runtime.read,
            cluster_name=settings.cluster_name,
            broker_name=settings.broker_name,
            address=around.address,
        )
    )
    consuming.groups.auto_create = settings.auto_create_groups
    consuming.groups.on_change.append(lambda group: around.hints.publish(GROUP_SUBJECT, group.encode()))
    return consuming


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


def build_registration(
    around: Surroundings, store: OpenedStore, sending: Sending, config: BrokerConfig
) -> Registration | None:
    """Return the registration, None without nameservers."""
    settings = around.settings
    if not settings.nameservers:
        return None
    host, _, port = around.address.rpartition(":")
    identity = Identity(
        settings.cluster_name, settings.broker_name, around.address, f"{host}:{int(port) + 1}"
    )
    registration = Registration(
        around.pool,
        settings.nameservers,
        identity,
        store.topics,
        every_seconds=settings.register_seconds,
        publish=around.hints.publish,
    )
    registration.broker_permission = settings.broker_permission
    sending.targets.set_broker_permission(settings.broker_permission)

    def set_permission(value: int) -> None:
        registration.broker_permission = value
        sending.targets.set_broker_permission(value)
        store.topics.version.bump()
        registration.topic_changed("")

    config.bind_number("brokerPermission", set_permission)
    store.topics.on_change.append(registration.topic_changed)
    sending.topic_commands.when_known = registration.when_known
    return registration
