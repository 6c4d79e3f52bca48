"""Receives an answer with a callback, without task and future, in the turn in which the answer arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from gantry_link.errors import LinkError
from gantry_wire.frame import Command

T = TypeVar("T")


class Waiting(Generic[T]):
    """An Answer. `read` decodes the command or raises; the callback gets its result or the error."""

    __slots__ = ("_read", "_told")

    def __init__(self, read: Callable[[Command], T], told: Callable[[T | Exception], None]) -> None:
        self._read, self._told = read, told

    def done(self) -> bool:
        """Return False: such a call is never cancelled."""
        return False

    def set_result(self, answer: Command, /) -> None:
        """Decode the answer and pass it to the callback."""
        try:
            outcome = self._read(answer)
        except Exception as error:  # noqa: BLE001 - the caller must get any error
            self._tell(error)
        else:
            self._tell(outcome)

    def set_exception(self, error: LinkError, /) -> None:
        """Pass the error to the callback."""
        self._tell(error)

    def _tell(self, outcome: T | Exception) -> None:
        try:
            self._told(outcome)
        except Exception as error:  # noqa: BLE001 - the other answers of this turn must reach their callers
            context = {"message": "the callback of a call failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
