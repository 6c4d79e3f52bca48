"""Dependencies of the leases, and the notes they write to the log."""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.commit.appends import Appends, stopped
from broker_store.commit.queues import QueueTable
from broker_store.commit.targets import Targets
from broker_store.commit.topics import TopicTable
from broker_store.groups.groups import GroupTable
from broker_store.groups.offsets import OffsetTable
from broker_store.leases.note_entry import Answered, NoteEntry
from broker_store.leases.notes import ACKS_TOPIC, LeaseNote
from broker_store.leases.subscriptions import Subscriptions
from broker_store.log.commit_log.commit_log import LogState
from broker_store.metrics.metrics import StoreMetrics
from broker_store.ports import LogReader
from broker_store.reading.pull_reading import InThread
from broker_store.reading.read_settings import ReadSettings
from broker_store.requests.deferred_replies import DeferredReplies


@dataclass(frozen=True, slots=True)
class LeaseParts:
    """The parts of the store that the leases use."""

    log: LogReader
    queues: QueueTable
    topics: TopicTable
    targets: Targets
    groups: GroupTable
    offsets: OffsetTable
    metrics: StoreMetrics
    settings: ReadSettings
    appends: Appends
    subscriptions: Subscriptions
    deferred: DeferredReplies
    in_thread: InThread
    now_ms: Callable[[], int]
    """Store time."""
    steady_ms: Callable[[], int]
    """The clock by which leases and waits end. Nothing moves it ahead."""
    rng: Callable[[], float]
    """Returns random numbers from 0 to 1, for delays with jitter."""
    boot: int
    """Number of this start of the store: the upper half of every lease number."""


class Notes:
    """Writes notes into GANTRY_SYS_ACKS through the group commit."""

    def __init__(self, parts: LeaseParts) -> None:
        self._parts = parts
        self.written = 0

    def write(self, note: LeaseNote, on_visible: Callable[[], object], answered: Answered) -> None:
        """Append a note. Calls `on_visible` in the step that makes it visible, and `answered` once it is durable or refused.

        Works from the ballast when the disk is full. Raises RefusedRequest when the store is stopped.
        """
        parts = self._parts
        log = parts.appends.log
        if log.state is LogState.STOPPED:
            raise stopped(log.stop_reason)

        def took_effect(position: int) -> None:
            parts.subscriptions.applied_at(position)
            on_visible()

        target = parts.targets.internal(parts.topics.ensure(ACKS_TOPIC, 1))
        queue = parts.queues.open(ACKS_TOPIC, 0)
        entry = NoteEntry(
            queue, note, target.mode, parts.now_ms(), parts.appends.store_host, took_effect, answered
        )
        parts.appends.enqueue(entry, len(entry.body))
        self.written += 1

    def write_unanswered(self, note: LeaseNote, on_visible: Callable[[], object]) -> None:
        """Append a note that nobody waits for. Does nothing where it cannot be written."""
        try:
            self.write(note, on_visible, _ignore)
        except Exception:  # noqa: BLE001 - the store is stopped: the log holds what was written
            return


def _ignore(_refusal: object) -> None:
    pass
