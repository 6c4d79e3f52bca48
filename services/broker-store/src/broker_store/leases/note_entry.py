# ruff: noqa: ARG002, D102 - the Protocols of the group commit say what these methods promise
"""A note of the leases in the group commit: takes effect when visible, and is answered when durable."""

from collections.abc import Callable

from broker_store.commit.message import Arrivals, IndexEntry, Message, Mode
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import RecordWriter
from broker_store.leases.notes import LeaseNote, encode_note
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
