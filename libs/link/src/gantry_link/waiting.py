"""What waits for an answer without a task and a future: it is called in the turn in which the answer came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from gantry_link.errors import LinkError
from gantry_wire.frame import Command

T = TypeVar("T")


class Waiting(Generic[T]):
    """An Answer. `read` makes of a command what the caller wants, or raises; `told` gets it, or the error."""

    __slots__ = ("_read", "_told")

    def __init__(self, read: Callable[[Command], T], told: Callable[[T | Exception], None]) -> None:
        self._read, self._told = read, told

    def done(self) -> bool:
        """Nobody takes such a call back."""
        return False

    def set_result(self, answer: Command, /) -> None:
        """Tell what was answered."""
        try:
            outcome = self._read(answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller must hear of it
            self._tell(error)
        else:
            self._tell(outcome)

    def set_exception(self, error: LinkError, /) -> None:
        """Tell that there is no answer."""
        self._tell(error)

    def _tell(self, outcome: T | Exception) -> None:
        try:
            self._told(outcome)
        except Exception as error:  # noqa: BLE001 - the other answers of this turn must reach their callers
            context = {"message": "telling the outcome of a call failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
