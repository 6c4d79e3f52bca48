"""Notes which damaged records a piece of work meets, also where their errors are caught on the way. For the log of a replica.

Most readers leave a damaged record out, and their caller learns nothing of it. `noting` runs such work and returns the positions, so that the caller can
get the records from another replica and run the work again.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

_met: ContextVar[set[int] | None] = ContextVar("met", default=None)


class Noted(NamedTuple):
    """How a piece of work ended."""

    result: Any
    error: Exception | None
    damaged: set[int]
    """Positions of the damaged records that it met."""

    def outcome(self) -> Any:
        """Return what the work returned, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self.result


def note_damage(position: int) -> None:
    """Note a damaged record for the work that runs in this thread, if it is noted."""
    met = _met.get()
    if met is not None:
        met.add(position)


def noting(work: Callable[..., Any], *arguments: Any) -> Noted:
    """Run work in this thread, and note the damaged records that it meets."""
    met: set[int] = set()
    token = _met.set(met)
    try:
        return Noted(work(*arguments), None, met)
    except Exception as error:  # noqa: BLE001 - `outcome` raises it
        return Noted(None, error, met)
    finally:
        _met.reset(token)
