"""Measures a store: log, disk, clocks and connections for Prometheus, new messages by topic, and the state for code 28.

Reads on demand, so that counting costs the hot path nothing.
"""

import asyncio
from collections.abc import Callable

from broker_store.commit.queues import Queue, QueueTable
from broker_store.log.errors import LogError
from broker_store.log.log_range import joined
from broker_store.metrics.runtime_info import RuntimeState
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.opening.opened_store import OpenedStore
from broker_store.opening.queue_note import Reason
from broker_store.process.disk_care import DiskCare
from broker_store.process.parts.sending import Sending
from broker_store.settling.decided.settled_table import SettledTable
from gantry_chassis.metrics import Metrics
from gantry_link.serving.server import RemotingServer
from gantry_wire.errors import WireError
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.records.message_record import decode_record

COUNT_SECONDS = 1.0


async def count_puts(queues: QueueTable, metrics: StoreMetrics, delayed: SettledTable) -> None:
    """Count new messages by topic from the growth of every queue, once a second, and update the delay metrics.

    Supervised.
    """
    seen: dict[Queue, tuple[int, int]] = {
        queue: (queue.next_offset, queue.put_bytes) for queue in queues.all()
    }
    while True:
        await asyncio.sleep(COUNT_SECONDS)
        now: dict[Queue, tuple[int, int]] = {}
        for queue in queues.all():
            offset, size = seen.get(queue, (queue.first_offset, 0))
            now[queue] = (queue.next_offset, queue.put_bytes)
            if queue.next_offset > offset:
                metrics.on_put(queue.topic, queue.next_offset - offset, queue.put_bytes - size)
        seen = now
        note_delays(queues, metrics, delayed)


def note_delays(queues: QueueTable, metrics: StoreMetrics, delayed: SettledTable) -> None:
    """Update how many messages wait for their time, and how fast they are delivered or recalled."""
    settled = delayed.of((TIMER_TOPIC, 0, ""))
    decided = settled.cursor + settled.settled_above
    timers = queues.find(TIMER_TOPIC, 0)
    levels = {
        queue.queue_id + 1: (delayed.of((SCHEDULE_TOPIC, queue.queue_id, "")).cursor, queue.max_offset)
        for queue in queues.of_topic(SCHEDULE_TOPIC)
    }
    metrics.note_delays(0 if timers is None else timers.max_offset - decided, decided, levels)


def register_metrics(
    metrics: Metrics, store: OpenedStore, sending: Sending, server: RemotingServer, care: DiskCare
) -> None:
    """Register the metrics of log, disk, clocks and connections."""
    _show_log(_Naming(metrics), store, sending)
    _show_disk(_Naming(metrics), store, care)
    metrics.gauge(
        "gantry_store_recovery_rebuild",
        "1 for the reason why this start rebuilt queues, index and tables from the whole log.",
        lambda: {(reason.value,): int(reason is store.rebuild_reason) for reason in Reason},
        ("reason",),
    )
    metrics.gauge("gantry_store_connections", "Open connections.", lambda: len(server.peers))
    metrics.counted(
        "gantry_store_connections_closed_stalled",
        "Readers closed because they did not read.",
        lambda: server.metrics.closed_stalled,
    )


class _Naming:
    """Adds metrics without labels under the store's prefix."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        self._metrics.gauge(f"gantry_store_{name}", help_text, read)

    def counted(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        self._metrics.counted(f"gantry_store_{name}", help_text, read)


def _show_log(names: _Naming, store: OpenedStore, sending: Sending) -> None:
    appends, log, checkpoints = sending.appends, store.log, sending.checkpoints
    gauge, counted = names.gauge, names.counted
    counted("append_batches", "Batches written to the log.", lambda: appends.batches)
    counted("append_records", "Entries written to the log.", lambda: appends.written)
    counted("append_refused", "Entries refused after they were accepted.", lambda: appends.refused)
    counted("append_syncs", "Calls of fdatasync on the log.", lambda: appends.syncs)
    gauge("sends_in_flight", "Sends accepted and not yet visible.", lambda: appends.pending)
    gauge("log_end_position", "End of what is written.", lambda: log.written_end)
    gauge("log_visible_position", "End of what can be read.", lambda: log.visible_end)
    gauge(
        "dispatch_behind_bytes",
        "Log bytes written and not yet in queues and index.",
        lambda: log.written_end - appends.visible_end,
    )
    gauge("log_confirm_position", "End of what is durable and complete.", lambda: log.confirm)
    gauge("log_min_position", "Where the log begins.", lambda: log.min_position)
    gauge(
        "log_state",
        "State of the log: 0 running, 1 disk full, 2 stopped.",
        lambda: list(type(log.state)).index(log.state),
    )
    gauge(
        "checkpoint_behind_bytes",
        "Log bytes that recovery would read after a crash now.",
        lambda: checkpoints.behind_bytes,
    )
    counted("checkpoints", "Checkpoints taken.", lambda: checkpoints.count)
    gauge(
        "checkpoint_longest_turn_seconds",
        "The longest a checkpoint held the loop.",
        lambda: checkpoints.longest_turn_s,
    )
    gauge("idempotency_keys", "Keys remembered.", lambda: len(store.window))
    counted(
        "idempotency_forgotten_early", "Keys dropped before their time.", lambda: store.window.forgotten_early
    )


def _show_disk(names: _Naming, store: OpenedStore, care: DiskCare) -> None:
    gauge, counted = names.gauge, names.counted
    gauge("disk_used_ratio", "Used part of the disk.", lambda: care.use().used_ratio)
    gauge("disk_free_bytes", "Free bytes of the disk.", lambda: care.use().free_bytes)
    clock = store.clock
    counted("clock_steps", "Times the wall clock stepped.", lambda: clock.wall.steps)
    gauge("clock_step_seconds", "How far the wall clock is off the trusted time.", lambda: clock.wall.step_s)
    gauge("clock_difference_seconds", "The wall clock less store time.", clock.difference_s)
    counted("segments_deleted", "Segments deleted by retention.", lambda: care.deleted_segments)
    gauge("recovery_holes", "Queue units left as holes.", lambda: store.holes)
    lost_bytes = sum(held.end - held.start for held in joined(store.skipped))
    gauge(
        "recovery_lost_bytes",
        "Bytes of the log that this start found damaged or missing.",
        lambda: lost_bytes,
    )
    gauge("recovery_start_position", "Log position from which this start read.", lambda: store.recovery_start)


class RuntimeReader:
    """Provides the state for code 28. `read` accesses the disk: call it in a thread."""

    def __init__(
        self, store: OpenedStore, dispatched_end: Callable[[], int], now_ms: Callable[[], int]
    ) -> None:
        """`dispatched_end`: what lies below it in the log is in queues and index."""
        self._store = store
        self._dispatched_end = dispatched_end
        self._now_ms = now_ms
        self._boot_ms = now_ms()

    def read(self) -> RuntimeState:
        """Return the current state."""
        store, log, now_ms = self._store, self._store.log, self._now_ms()
        return RuntimeState(
            now_ms=now_ms,
            boot_ms=self._boot_ms,
            log_min=log.min_position,
            log_max=log.visible_end,
            earliest_ms=self._earliest_ms(now_ms),
            disk_total=store.files.total_bytes(store.directory),
            disk_free=store.files.free_bytes(store.directory),
            store_dir=store.directory,
            dispatch_behind=log.written_end - self._dispatched_end(),
            unflushed_bytes=log.written_end - log.durable_end,
            accept_sends_after_ms=store.settings.accept_sends_after_ms,
        )

    def _earliest_ms(self, now_ms: int) -> int:
        log = self._store.log
        if log.visible_end <= log.min_position:
            return now_ms
        try:
            return decode_record(log.read_record(log.min_position)).store_timestamp
        except (LogError, WireError, OSError):
            return now_ms
