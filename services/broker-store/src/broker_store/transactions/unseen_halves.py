# ruff: noqa: ARG002 - the Protocols say what these methods promise
"""Decisions about halves that are acknowledged and not yet readable (WAIT=false, asynchronous flush): they wait for the flush.

The decisions of one turn wait as one entry of the group commit that stores nothing. It is answered when
everything before it is visible.
"""

import asyncio
from collections.abc import Callable

from broker_store.commit.appends import Appends
from broker_store.commit.message import Arrivals, IndexEntry, Mode
from broker_store.commit.record_writer import RecordWriter
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

Resume = Callable[[], None]
Refuse = Callable[[RefusedRequest], None]


class UnseenHalves:
    """Holds decisions until their half is visible."""

    def __init__(self, appends: Appends) -> None:
        self._appends = appends
        self._open: _AfterFlush | None = None

    @property
    def has_any(self) -> bool:
        """Whether any record is written and not yet visible."""
        return self._appends.visible_end < self._appends.log.written_end

    def is_unseen(self, position: int) -> bool:
        """Whether the record at a position is written and not yet visible."""
        return self._appends.visible_end <= position < self._appends.log.written_end

    def wait(self, resume: Resume, refuse: Refuse) -> None:
        """Call `resume` once everything written so far is visible; `refuse` where it never will be."""
        entry = self._open
        if entry is None or entry.is_placed:
            entry = self._open = _AfterFlush()
            self._appends.enqueue(entry)
        entry.held.append((resume, refuse))

    async def until_visible(self) -> None:
        """Wait until everything written so far is visible. Raises RefusedRequest where it never will be."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def resume() -> None:
            if not answer.done():
                answer.set_result(None)

        def refuse(refusal: RefusedRequest) -> None:
            if not answer.done():
                answer.set_exception(refusal)

        self.wait(resume, refuse)
        await answer


class _AfterFlush:
    """An entry that stores nothing."""

    count = 1

    def __init__(self) -> None:
        self.mode = Mode.SYNC
        self.held: list[tuple[Resume, Refuse]] = []
        self.is_placed = False

    def place(self, at: RecordWriter) -> None:
        self.is_placed = True

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        """Do nothing: nothing becomes visible."""

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        held, self.held = self.held, []
        self.is_placed = True
        for resume, _ in held:
            resume()

    def refuse(self, refusal: RefusedRequest) -> None:
        held, self.held = self.held, []
        self.is_placed = True
        for resume, refuse in held:
            if refusal.code == ResponseCode.SYSTEM_BUSY:
                resume()  # only later entries were refused; what was written before still becomes visible
            else:
                refuse(refusal)
