"""Appends lease notes to GANTRY_SYS_ACKS through the group commit."""

from collections.abc import Callable

from broker_store.commit.appends import Appends, stopped
from broker_store.commit.queues import QueueTable
from broker_store.commit.targets import Targets
from broker_store.commit.topics import TopicTable
from broker_store.leases.note_bodies import ACKS_TOPIC, LeaseNote, encode_note
from broker_store.leases.subscriptions import Subscriptions
from broker_store.log.commit_log.commit_log import LogState
from broker_store.state_records.state_record import Answered, StateRecord


class NoteWriter:
    """Writes notes, one record each."""

    def __init__(
        self,
        appends: Appends,
        targets: Targets,
        topics: TopicTable,
        queues: QueueTable,
        subscriptions: Subscriptions,
        now_ms: Callable[[], int],
    ) -> None:
        self._appends = appends
        self._targets = targets
        self._topics = topics
        self._queues = queues
        self._subscriptions = subscriptions
        self._now_ms = now_ms

    def write(self, note: LeaseNote, on_visible: Callable[[], object], answered: Answered) -> None:
        """Append a note. Calls `on_visible` in the step that makes it visible, and `answered` once it is durable or refused.

        Works from the ballast when the disk is full. Raises RefusedRequest when the store is stopped.
        """
        log = self._appends.log
        if log.state is LogState.STOPPED:
            raise stopped(log.stop_reason)

        def took_effect(position: int) -> None:
            self._subscriptions.applied_at(position)
            on_visible()
            self._subscriptions.noted(note, position)

        target = self._targets.internal(self._topics.ensure(ACKS_TOPIC, 1))
        queue = self._queues.open(ACKS_TOPIC, 0)
        entry = StateRecord(
            queue,
            encode_note(note),
            target.mode,
            self._now_ms(),
            self._appends.store_host,
            took_effect,
            answered,
        )
        self._appends.enqueue(entry, len(entry.body))

    def write_unanswered(self, note: LeaseNote, on_visible: Callable[[], object]) -> None:
        """Append a note that nobody waits for. Does nothing where it cannot be written."""
        try:
            self.write(note, on_visible, _ignore)
        except Exception:  # noqa: BLE001 - the store is stopped: the log holds what was written
            return


def _ignore(_refusal: object) -> None:
    pass
