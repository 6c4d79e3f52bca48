"""Receives an answer with a callback, without task and future, in the turn in which the answer arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from gantry_link.errors import BrokerRefused, LinkError, UnreadableAnswer
from gantry_wire.frame import Command

T = TypeVar("T")


class Waiting(Generic[T]):
    """An Answer that passes its result to a callback: what `read` makes of the command, or why there is none."""

    __slots__ = ("_on_result", "_read")

    def __init__(
        self, read: Callable[[Command], T], on_result: Callable[[T | BrokerRefused | LinkError], None]
    ) -> None:
        """`read` raises BrokerRefused where the command is a refusal."""
        self._read, self._on_result = read, on_result

    def done(self) -> bool:
        """Return False: such a call is never cancelled."""
        return False

    def set_result(self, answer: Command, /) -> None:
        """Decode the answer and pass it to the callback."""
        try:
            result = self._read(answer)
        except BrokerRefused as error:
            self._pass(error)
        except Exception as error:  # noqa: BLE001 - the callback must be called, whatever the answer contains
            self._pass(UnreadableAnswer(f"the answer cannot be read: {error}"))
        else:
            self._pass(result)

    def set_exception(self, error: LinkError, /) -> None:
        """Pass the error to the callback."""
        self._pass(error)

    def _pass(self, result: T | BrokerRefused | LinkError) -> None:
        try:
            self._on_result(result)
        except Exception as error:  # noqa: BLE001 - the other answers of this turn must reach their callers
            context = {"message": "the callback of a call failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
