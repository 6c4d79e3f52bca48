# ruff: noqa: ARG002 - the Protocols of the group commit say what these methods promise
"""The record of one entry in GANTRY_SYS_ACCESS, as an entry of the group commit."""

from collections.abc import Callable

from broker_store.commit.message import Arrivals, IndexEntry, Message, Mode
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import RecordWriter
from gantry_access.entries.entry import Entry, encode_entry
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

OnVisible = Callable[[Entry, int], None]
"""Called with the entry and the position of its record in the step that makes it visible."""
Answered = Callable[[RefusedRequest | None], None]
"""Called once: with None when the record is durable, else with the reason why it is not, or perhaps not, stored."""


class ChangeRecord(Message):
    """One record. It is always flushed before it becomes visible and is answered, whatever the store's flush mode is."""

    __slots__ = ("_entry", "_on_answer", "_on_visible")

    def __init__(
        self,
        queue: Queue,
        entry: Entry,
        now_ms: int,
        store_host: bytes,
        on_visible: OnVisible,
        on_answer: Answered,
    ) -> None:
        super().__init__(
            queue, encode_entry(entry), b"", 0, "", None, Mode.SYNC, None, 0, 0, 0, now_ms, store_host, 0
        )
        self._entry = entry
        self._on_visible = on_visible
        self._on_answer: Answered | None = on_answer

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        """Append the unit, and apply the entry."""
        self.queue.units.append(self.offset, self.position, self.size, 0)
        self._on_visible(self._entry, self.position)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        """Report that the record is durable. A late one is reported once it is."""
        if not code:
            self._finish(None)

    def refuse(self, refusal: RefusedRequest) -> None:
        """Report why it is not stored."""
        self._finish(refusal)

    def _finish(self, refusal: RefusedRequest | None) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(refusal)
