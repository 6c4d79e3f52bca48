# ruff: noqa: ARG002 - the Protocols say what these methods promise
"""Decisions about halves that are acknowledged and not yet readable (WAIT=false, asynchronous flush): they wait for that flush.

What arrives in one turn waits as one entry of the group commit that stores nothing: it is answered when all before it is visible.
"""

from collections.abc import Callable

from broker_store.commit.appends import Appends
from broker_store.commit.message import Arrivals, IndexEntry, Mode, Placement
from broker_store.ports import Peer
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frame import Command

GoOn = Callable[[Peer, Command], None]
Refuse = Callable[[Peer, Command, RefusedRequest], None]


class UnseenHalves:
    """Holds decisions back until their half is visible."""

    def __init__(self, appends: Appends) -> None:
        self._appends = appends
        self._open: _AfterFlush | None = None

    def is_unseen(self, position: int) -> bool:
        """Whether the record at a position is written and not yet visible."""
        appends = self._appends
        return appends.appeared_end <= position < appends.log.written_end

    def wait(self, peer: Peer, command: Command, go_on: GoOn, refuse: Refuse) -> None:
        """Call `go_on` once everything that is written now is visible; `refuse` where that will never be."""
        entry = self._open
        if entry is None or entry.is_placed:
            entry = self._open = _AfterFlush(go_on, refuse)
            self._appends.enqueue(entry)
        entry.held.append((peer, command))


class _AfterFlush:
    """Stores nothing."""

    count = 1

    def __init__(self, go_on: GoOn, refuse: Refuse) -> None:
        self.mode = Mode.SYNC
        self.held: list[tuple[Peer, Command]] = []
        self.is_placed = False
        self._go_on, self._refuse = go_on, refuse

    def place(self, at: Placement) -> None:
        self.is_placed = True

    def take_back(self) -> None:
        """Nothing to take back."""

    def appear(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        """Nothing becomes visible."""

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        held, self.held = self.held, []
        self.is_placed = True
        for peer, command in held:
            self._go_on(peer, command)

    def refuse(self, refusal: RefusedRequest) -> None:
        held, self.held = self.held, []
        self.is_placed = True
        for peer, command in held:
            if refusal.code == ResponseCode.SYSTEM_BUSY:
                self._go_on(
                    peer, command
                )  # only what came with it was refused; what was written before goes on
            else:
                self._refuse(peer, command, refusal)
