# ruff: noqa: ARG002, D102 - the Protocols of the group commit say what these methods promise
"""Appends lease notes to GANTRY_SYS_ACKS through the group commit."""

from collections.abc import Callable

from broker_store.commit.appends import Appends, stopped
from broker_store.commit.message import Arrivals, IndexEntry, Message, Mode
from broker_store.commit.queues import Queue, QueueTable
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.targets import Targets
from broker_store.commit.topics import TopicTable
from broker_store.leases.note_bodies import ACKS_TOPIC, LeaseNote, encode_note
from broker_store.leases.subscriptions import Subscriptions
from broker_store.log.commit_log.commit_log import LogState
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

Answered = Callable[[RefusedRequest | None], None]
"""Called once: with None when the note is as durable as the store promises, else with the reason why it is not, or perhaps not, stored."""


class NoteEntry(Message):
    """One record of GANTRY_SYS_ACKS. Calls `on_visible` with its position in the step that makes it readable."""

    __slots__ = ("_on_answer", "_on_visible")

    def __init__(
        self,
        queue: Queue,
        note: LeaseNote,
        mode: Mode,
        now_ms: int,
        store_host: bytes,
        on_visible: Callable[[int], None],
        on_answer: Answered,
    ) -> None:
        super().__init__(
            queue, encode_note(note), b"", 0, "", None, mode, None, 0, 0, 0, now_ms, store_host, 0
        )
        self._on_visible = on_visible
        self._on_answer: Answered | None = on_answer

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        self.queue.units.append(self.offset, self.position, self.size, 0)
        self._on_visible(self.position)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        if code:  # late: it stays in the log and takes effect when flushed; only then is it answered
            return
        self._finish(None)

    def refuse(self, refusal: RefusedRequest) -> None:
        self._finish(refusal)

    def _finish(self, refusal: RefusedRequest | None) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(refusal)


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

        target = self._targets.internal(self._topics.ensure(ACKS_TOPIC, 1))
        queue = self._queues.open(ACKS_TOPIC, 0)
        entry = NoteEntry(
            queue, note, target.mode, self._now_ms(), self._appends.store_host, took_effect, answered
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
