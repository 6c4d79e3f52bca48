"""What every store does for users and policies, also where access control is off: their records do not leave the log."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from broker_store.access.change_log import ChangeLog
from broker_store.access.switched_off import off_commands
from broker_store.opening.opened_store import OpenedStore
from broker_store.ports import Commands
from broker_store.process.foundation import Surroundings
from broker_store.process.parts.sending import Sending
from gantry_access.entries.entry import Key
from gantry_chassis.logs.structured import get_logger
from gantry_wire.errors import RefusedRequest

_log = get_logger()


class Control(Protocol):
    """Access control that is on."""

    @property
    def log(self) -> ChangeLog:
        """Where it stores entries."""
        ...

    def commands(self) -> Commands:
        """Return its entries of the command table."""
        ...

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return its background loops."""
        ...

    def forget(self) -> Iterable[Key]:
        """Forget what counts no more, and return its keys."""
        ...

    async def close(self) -> None:
        """Answer what waits, and finish running changes."""
        ...


class Access:
    """Users and policies as one feature."""

    def __init__(
        self, around: Surroundings, store: OpenedStore, sending: Sending, control: Control | None
    ) -> None:  # fmt: skip
        """Without `control` everybody may send everything, and requests about users are refused."""
        self._entries = entries = store.states.access
        self._control = control
        if control is None:
            log = ChangeLog(sending.appends, store.queues, entries, around.now_ms, lambda _entry: None)
        else:
            log = control.log
        self.log = log
        around.metrics.gauge(
            "gantry_store_access_entries", "Users, policies, tokens and deletions kept.", lambda: len(entries)
        )
        around.metrics.counted(
            "gantry_store_access_rolled",
            "Entries appended again so that a segment can be deleted.",
            lambda: log.rolled,
        )

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return off_commands() if self._control is None else self._control.commands()

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {} if self._control is None else self._control.loops()

    def closed(self, _peer: object) -> None:
        """Do nothing: no state depends on a connection, and a follower's answer goes nowhere."""

    async def close(self) -> None:
        """Answer what waits, and finish running changes."""
        if self._control is not None:
            await self._control.close()

    async def roll(self, below: int) -> None:
        """Append again what only records below a position hold. What cannot be appended keeps its segment."""
        if self._control is not None:
            self._entries.drop(self._control.forget())
        try:
            await self.log.roll(below)
        except RefusedRequest as refusal:
            _log.warning("entries of users keep a segment that is due for deletion", reason=refusal.remark)
