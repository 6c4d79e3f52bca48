"""What a replica says of its group: at GET /v1/replication, as metrics, and once a minute in the log. Decides nothing."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from broker_store.admin.replication_handler import Copy, ReplicationHandlers
from broker_store.ports import Commands
from broker_store.process.group.settings import GroupSettings
from broker_store.replication.replica_log import ReplicaLog
from broker_store.replication.shell import Shell
from broker_store.replication.states import ReplicaState
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.metrics import Labels, Metrics
from gantry_wire.codes import RequestCode

SAMPLE_SECONDS = 0.25
SAMPLES_MAX = 2400
"""Ten minutes: a replica that is further behind in time is at least so far behind."""
SPEED_SAMPLES = 5
"""A second of samples."""
REPORT_SECONDS = 60.0

_log = get_logger()


class Position(NamedTuple):
    """What the store above the shell has."""

    confirmed: int
    is_serving: bool
    lost_bytes: int
    """Bytes of its log that are known to be lost, and not filled."""


class GroupReport:
    """The report of one life."""

    def __init__(
        self, settings: GroupSettings, shell: Shell, log: ReplicaLog, steady: Callable[[], float], position: Callable[[], Position]
    ) -> None:  # fmt: skip
        self._settings, self._shell, self._log = settings, shell, log
        self._steady, self._position = steady, position
        self._ends: deque[tuple[float, int]] = deque(maxlen=SAMPLES_MAX)
        """Where the log ended at which time, s."""
        self._reported: dict[str, deque[tuple[float, int]]] = {}
        """What each follower had reported at which time, s, within the last second."""

    def describe(self) -> dict[str, Any]:
        """Return what GET /v1/replication answers."""
        role, settings, position = self._shell.role, self._settings, self._position()
        newest, leading = role.replica.kept.newest, role.leading
        now_ms = int(self._steady() * 1000)
        return {
            "group": settings.group, "name": settings.name, "role": role.state.value,
            "epoch": newest.epoch if newest else 0, "version": newest.version if newest else 0,
            "leader": newest.leader if newest else "", "members": list(newest.members) if newest else [],
            "replication": "async" if settings.is_async else "sync", "minInSync": settings.min_in_sync, "confirmOffset": position.confirmed, "endOffset": self._log.written_end,
            "isServing": position.is_serving, "acceptsSends": role.accepts_sends, "hasLease": self._shell.may_grant,
            "isFit": role.replica.is_fit, "lostBytes": position.lost_bytes,
            "leadsForMs": None if leading is None else now_ms - leading.since,
            "registerFault": self._shell.register.fault,
            "replicas": [] if leading is None else [self._of(name) for name in settings.others],
        }  # fmt: skip

    def _of(self, name: str) -> dict[str, Any]:
        newest, behind = self._shell.role.replica.kept.newest, self._shell.shipping.behind().get(name)
        leading = self._shell.role.leading
        end = None if behind is None else self._log.written_end - behind
        return {
            "name": name, "address": self._settings.others[name], "endOffset": end, "behindBytes": behind,
            "behindMs": None if end is None else self._behind_ms(end),
            "isInSync": newest is not None and name in newest.members,
            "isFit": leading is None or leading.is_fit(name),
        }  # fmt: skip

    def _behind_ms(self, end: int) -> int:
        """Return how long ago the log was longer than this for the first time."""
        if end >= self._log.written_end:
            return 0
        longer_s = next((at_s for at_s, sampled in self._ends if sampled > end), self._steady())
        return int((self._steady() - longer_s) * 1000)

    def copies(self) -> list[Copy]:
        """Return the replicas that have a session with this leader."""
        newest = self._shell.role.replica.kept.newest
        members = newest.members if newest else ()
        return [
            Copy(self._settings.others[name], reported, sent, self._speed(name), name in members)
            for name, (reported, sent) in sorted(self._shell.shipping.progress().items())
        ]

    def follower_ids(self) -> list[int]:
        """Return the broker ids of the followers that are in sync, have a session with this leader, and are fit: one that lost records refuses reads."""
        newest, leading = self._shell.role.replica.kept.newest, self._shell.role.leading
        members = newest.members if newest else ()
        names = [name for name in sorted(self._shell.shipping.progress()) if name in members]
        return [self._settings.id_of(name) for name in names if leading is None or leading.is_fit(name)]

    def tools(self, cluster_name: str) -> Commands:
        """Return the command table entries by which RocketMQ's tools ask any replica for the epochs of its log."""
        settings = self._settings
        handlers = ReplicationHandlers(
            lambda: self._log.written_end, self, cluster_name, settings.group, settings.follower_id
        )
        code = RequestCode.GET_BROKER_EPOCH_CACHE
        return {code: handlers.commands()[code]}

    def epochs(self) -> list[tuple[int, int, int]]:
        """Return epoch, start and end of each epoch of the log."""
        return list(self._shell.role.replica.kept.table.ranges(self._log.written_end))

    def _speed(self, name: str) -> int:
        """Return by how many bytes a second the reported end of a replica grew."""
        samples = self._reported.get(name, ())
        if len(samples) < 2:
            return 0
        (first_s, first), (last_s, last) = samples[0], samples[-1]
        return int((last - first) / (last_s - first_s)) if last_s > first_s else 0

    def _sample(self, now_s: float) -> None:
        self._ends.append((now_s, self._log.written_end))
        for name, (reported, _) in self._shell.shipping.progress().items():
            self._reported.setdefault(name, deque(maxlen=SPEED_SAMPLES)).append((now_s, reported))

    def show(self, metrics: Metrics) -> None:
        """Add the metrics."""
        role, gauge = self._shell.role, metrics.gauge
        gauge("gantry_store_replica_role", "1 for what this replica is.", self._roles, ("role",))
        gauge(
            "gantry_store_replica_epoch", "Epoch of the newest leader that this replica knows.",
            lambda: role.replica.kept.newest.epoch if role.replica.kept.newest else 0,
        )  # fmt: skip
        gauge("gantry_store_replica_in_sync", "Replicas in the recorded in-sync set.", self._in_sync)
        gauge(
            "gantry_store_replica_min_in_sync",
            "Fewer in sync: sends are refused.",
            lambda: self._settings.min_in_sync,
        )
        gauge(
            "gantry_store_replica_lease",
            "1 while this leader may grant locks and leases.",
            lambda: float(self._shell.may_grant),
        )
        metrics.counted(
            "gantry_store_replica_repaired_records", "Damaged records that were replaced by those of another replica.",
            lambda: self._shell.repairing.records,
        )  # fmt: skip
        gauge(
            "gantry_store_replica_fit",
            "1 while this replica is fit to lead: its disk has room for sends, and its log has lost nothing.",
            lambda: float(role.replica.is_fit),
        )
        gauge(
            "gantry_store_replica_lost_bytes", "Bytes of the log of this replica that are known to be lost, and not filled from another one.",
            lambda: self._position().lost_bytes,
        )  # fmt: skip
        gauge(
            "gantry_store_replica_register_away", "1 while the register of the group does not answer.",
            lambda: float(bool(self._shell.register.fault)),
        )  # fmt: skip
        gauge(
            "gantry_store_replica_behind_bytes",
            "Log bytes that a follower lacks; of the leader only.",
            self._behind,
            ("replica",),
        )

    def _roles(self) -> dict[Labels, float]:
        return {(state.value,): float(state is self._shell.role.state) for state in ReplicaState}

    def _in_sync(self) -> float:
        newest = self._shell.role.replica.kept.newest
        return len(newest.members) if newest else 0

    def _behind(self) -> dict[Labels, float]:
        if self._shell.role.leading is None:
            return {}
        return {(name,): behind for name, behind in self._shell.shipping.behind().items()}

    async def run(self) -> None:
        """Sample the end of the log, and report once a minute. Supervised."""
        reported_s = self._steady()
        while True:
            now_s = self._steady()
            self._sample(now_s)
            if now_s - reported_s >= REPORT_SECONDS:
                reported_s = now_s
                self._report()
            await asyncio.sleep(SAMPLE_SECONDS)

    def _report(self) -> None:
        leading = self._shell.role.leading
        if leading is None:
            return
        for name in self._settings.others:
            found = self._of(name)
            _log.info(
                "distance of a replica", replica=name, is_in_sync=found["isInSync"], behind_bytes=found["behindBytes"], behind_ms=found["behindMs"],
                epoch=leading.epoch,
            )  # fmt: skip
