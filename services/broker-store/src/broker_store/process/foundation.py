"""The parts that stand on an opened store alone. The sending half, the reading half and the leases are built on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from broker_store.admin.replication_handler import Copy, Group
from broker_store.admin.topics_handler import WhenKnown
from broker_store.commit.topics import TopicTable
from broker_store.config.config_files import ConfigFile
from broker_store.config_log.exports import FoundFile
from broker_store.config_log.topics_table import found_file
from broker_store.groups.clients import ClientTable
from broker_store.groups.groups import GroupTable, groups_from
from broker_store.groups.locks.lock_file import LockFile
from broker_store.groups.locks.lock_handler import QueueLocks
from broker_store.groups.offsets import OffsetTable
from broker_store.log.files.files import Files
from broker_store.log.snapshot import Snapshots
from broker_store.metrics.counts import TopicKind
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.opening.opened_store import OpenedStore
from broker_store.process.disk_care import DiskCare
from broker_store.process.group.follower_registration import FollowerRegistration
from broker_store.process.registration import Identity, Registration
from broker_store.reading.read_settings import ReadSettings
from broker_store.reading.repaired_reads import Repaired, RepairedReads
from broker_store.requests.request_classes import RequestClass
from broker_store.settings import Settings
from gantry_chassis.machine.environment import Workers
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.start_refusal import StartRefused
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.errors import MalformedBody
from gantry_wire.names import SYSTEM_TOPIC_PREFIX

READER_THREADS = 2
"""Threads that wait for the disk for pulls and queries. The loop never does."""


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
    snapshots: Snapshots
    epoch: int = 0
    """In which this store leads its group; 0 for a store without replicas."""
    group: Group | None = None
    """The group that this store leads."""
    clients: ClientTable = field(default_factory=ClientTable)
    """Those of a replica's time as a follower stay."""
    slaves: Callable[[], Sequence[Copy]] | None = None
    """RocketMQ's slaves; None without an HA port."""
    repaired: Repaired | None = None
    """None without replicas."""


@dataclass(frozen=True, slots=True)
class ReadingBase:
    """Groups, offsets, counts and settings: what the reading half and the leases have in common."""

    metrics: StoreMetrics
    groups: GroupTable
    groups_found: FoundFile | None
    """What subscriptionGroup.json was. None where there was none."""
    group_thread: Workers
    """Writes the file of filters."""
    offsets: OffsetTable
    settings: ReadSettings
    readers: Workers
    repaired: Repaired | None

    @property
    def in_thread(self) -> RepairedReads:
        """Reads in the reader threads."""
        return RepairedReads(self.readers.run, self.repaired)


@dataclass(frozen=True, slots=True)
class Foundation:
    """These parts of one store."""

    reading: ReadingBase
    locks: QueueLocks
    care: DiskCare
    registration: Registration | None
    """None without nameservers."""

    @property
    def when_known(self) -> WhenKnown:
        """Calls back once nameservers have the current topics; at once where there are none."""
        return _call if self.registration is None else self.registration.when_known


def build_foundation(around: Surroundings, store: OpenedStore, thread: Workers) -> Foundation:
    """Return the parts, with what their files hold. `thread` does the work of the disk's care."""
    return Foundation(
        _reading_base(around, store),
        _locks(store),
        DiskCare(store, around.snapshots, thread, around.repaired),
        _registration(around, store),
    )


def _reading_base(around: Surroundings, store: OpenedStore) -> ReadingBase:
    environment, now_ms, topics = store.environment, around.now_ms, store.topics
    thread = environment.workers(1, "groups")
    file = ConfigFile(store.files, f"{store.config_dir}/subscriptionGroup.json")
    groups, found = load_groups(
        file, now_ms, auto_create=around.settings.auto_create_groups, on_change=store.events.group_changed
    )
    return ReadingBase(
        metrics=StoreMetrics(around.metrics, local_s(now_ms()), lambda name: kind_of(topics, name)),
        groups=groups,
        groups_found=found,
        group_thread=thread,
        offsets=OffsetTable(),
        settings=read_settings(around.settings),
        readers=environment.workers(READER_THREADS, "reader"),
        repaired=around.repaired,
    )


def load_groups(
    file: ConfigFile, now_ms: Callable[[], int], *, auto_create: bool, on_change: Callable[[str], None]
) -> tuple[GroupTable, FoundFile | None]:
    """Return the groups of a file, and what the file was. Raises StartRefused for a file of another format."""
    content = file.load()
    try:
        groups = groups_from(content, now_ms, auto_create=auto_create, on_change=on_change)
    except MalformedBody as error:
        raise StartRefused(f"{file.path}: {error}: repair the file or remove it") from error
    return groups, found_file(file, content)


def local_s(now_ms: int) -> int:
    """Return local time in seconds, so that midnight is the machine's."""
    seconds = now_ms // 1000
    offset = datetime.fromtimestamp(seconds).astimezone().utcoffset()
    return seconds + int(offset.total_seconds() if offset is not None else 0)


def kind_of(topics: TopicTable, name: str) -> TopicKind:
    """Return how a topic counts in the metrics."""
    if topics.is_internal(name):
        return TopicKind.INTERNAL
    is_system = name.startswith(SYSTEM_TOPIC_PREFIX) or name in topics.system_names()
    return TopicKind.SYSTEM if is_system else TopicKind.USER


def read_settings(settings: Settings) -> ReadSettings:
    """Return the settings of the reading side as of a start."""
    reads = ReadSettings(
        broker_permission=settings.broker_permission,
        long_polling_enable=settings.long_polling_enable,
        property_filter_enable=settings.property_filter_enable,
        slave_read_enable=settings.slave_read_enable,
        server_side_reset=settings.server_side_reset,
        protect_broker=settings.protect_broker,
        fallbehind_bytes_max=settings.fallbehind_bytes_max,
    )
    reads.set_pull_bytes_max(settings.pull_bytes_max)
    return reads


def lock_file(store: OpenedStore) -> LockFile:
    """Return the file of queue locks."""
    return LockFile(store.files, f"{store.directory}/gantry/locks")


def _locks(store: OpenedStore) -> QueueLocks:
    file = lock_file(store)
    return QueueLocks(
        file, lambda: int(store.clock.monotonic() * 1000), store.environment.workers(1, "locks")
    )


def _registration(around: Surroundings, store: OpenedStore) -> Registration | None:
    if not around.settings.nameservers:
        return None
    return registration_of(
        around.settings, around.pool, around.address, around.hints, store.topics, epoch=around.epoch
    )


def registration_of(
    settings: Settings, pool: ConnectionPool, address: str, hints: Hints, topics: TopicTable, broker_id: int = 0, *, epoch: int
) -> Registration:  # fmt: skip
    """Return the registration of a store as a broker id, in an epoch."""
    host, _, port = address.rpartition(":")
    identity = Identity(
        settings.cluster_name,
        settings.broker_name,
        address,
        f"{host}:{settings.ha_port or int(port) + 1}",
        broker_id,
        epoch,
    )
    return Registration(
        pool, settings.nameservers, identity, topics,
        broker_permission=settings.broker_permission, every_seconds=settings.register_seconds, publish=hints.publish,
    )  # fmt: skip


def follower_registration(
    settings: Settings, pool: ConnectionPool, address: str, hints: Hints, topics: TopicTable, broker_id: int, epoch: Callable[[], int]
) -> FollowerRegistration:  # fmt: skip
    """Return what keeps a replica registered while it does not lead. `epoch`: of the leader that it follows, 0 for none."""

    def make(now: int) -> Registration:
        return registration_of(settings, pool, address, hints, topics, broker_id, epoch=now)

    return FollowerRegistration(epoch if settings.nameservers else lambda: 0, make)


def _call(answer: Callable[[], None]) -> None:
    answer()
