"""Receives an answer with a callback, without task and future, in the turn in which the answer arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from gantry_link.errors import BrokerRefused, LinkError, UnreadableAnswer
from gantry_wire.frames.command import Command

T = TypeVar("T")


class Waiting(Generic[T]):
    """An Answer that passes one result to a callback: what `read` returns for the command, or what `failed` returns for its error."""

    __slots__ = ("_failed", "_on_result", "_read")

    def __init__(
        self,
        read: Callable[[Command], T],
        failed: Callable[[BrokerRefused | LinkError], T],
        on_result: Callable[[T], None],
    ) -> None:
        """`read` raises BrokerRefused where the command is a refusal; any other exception means that it is unreadable."""
        self._read, self._failed, self._on_result = read, failed, on_result

    def done(self) -> bool:
        """Return False: such a call is never cancelled."""
        return False

    def set_result(self, answer: Command, /) -> None:
        """Decode the answer and pass it to the callback."""
        try:
            result = self._read(answer)
        except BrokerRefused as error:
            result = self._failed(error)
        except Exception as error:  # noqa: BLE001 - the callback must be called, whatever the answer contains
            result = self._failed(UnreadableAnswer(f"the answer cannot be read: {error}"))
        try:
            self._on_result(result)
        except Exception as error:  # noqa: BLE001 - the other answers of this turn must reach their callers
            _report(error)

    def set_exception(self, error: LinkError, /) -> None:
        """Pass the error to the callback."""
        try:
            self._on_result(self._failed(error))
        except Exception as fault:  # noqa: BLE001 - as above
            _report(fault)


def _report(error: Exception) -> None:
    context = {"message": "the callback of a call failed", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
