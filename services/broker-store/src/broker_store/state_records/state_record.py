# ruff: noqa: ARG002 - the Protocols of the group commit say what these methods promise
"""The record of a change of state, as an entry of the group commit."""

from collections.abc import Callable

from broker_store.commit.message import Arrivals, IndexEntry, Message, Mode
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import RecordWriter
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

OnVisible = Callable[[int], None]
"""Called with the position of the record in the step that makes it visible."""
Answered = Callable[[RefusedRequest | None], None]
"""Called once: with None when the record is as durable as its mode promises, else with the reason why it is not, or perhaps not, stored."""


class StateRecord(Message):
    """One record in a queue of the store's own. Nothing but `on_visible` learns of it: it has no key, no tag and no reader that waits.

    With Mode.SYNC it is flushed before it becomes visible and is answered, whatever the store's flush mode is.
    """

    __slots__ = ("_on_answer", "_on_visible")

    def __init__(
        self,
        queue: Queue,
        body: bytes,
        mode: Mode,
        now_ms: int,
        store_host: bytes,
        on_visible: OnVisible,
        on_answer: Answered,
    ) -> None:
        super().__init__(queue, body, b"", 0, "", None, mode, None, 0, 0, 0, now_ms, store_host, 0)
        self._on_visible = on_visible
        self._on_answer: Answered | None = on_answer

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        """Append the unit, and apply the change."""
        self.queue.units.append(self.offset, self.position, self.size, 0)
        self._on_visible(self.position)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        """Report that the record is durable. A late one stays in the log, and is reported once it is."""
        if not code:
            self._finish(None)

    def refuse(self, refusal: RefusedRequest) -> None:
        """Report why it is not stored."""
        self._finish(refusal)

    def _finish(self, refusal: RefusedRequest | None) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(refusal)
