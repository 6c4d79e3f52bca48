"""Requests from brokers: each goes to the handler of its code, and the answer back on the same connection.

Producers and consumers register their handlers. A handler never blocks; slow work is awaitable.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from gantry_link.connections.connection import Connection
from gantry_link.errors import LinkError
from gantry_wire.codes import ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.typed_header import Header

log: logging.Logger = logging.getLogger("gantrymq")


@dataclass(frozen=True, slots=True)
class PushReply:
    """The answer to a broker's request."""

    code: int = 0
    header: Header | dict[str, str] | None = None
    body: bytes = b""
    remark: str | None = None


PushAnswer: TypeAlias = "PushReply | Awaitable[PushReply | None] | None"
PushHandler: TypeAlias = "Callable[[Command, str], PushAnswer]"
"""Called with the request and the broker's address. None: no answer (one-way requests)."""


class Pushes:
    """The handlers of a client."""

    def __init__(self) -> None:
        self._handlers: dict[int, PushHandler] = {}
        self._running: dict[asyncio.Task[None], None] = {}

    def on(self, code: int, handler: PushHandler) -> None:
        """Register the handler of a request code. A code has one handler."""
        self._handlers[code] = handler

    def receive(self, connection: Connection, command: Command) -> None:
        """Answer a request; called by the connection it came on."""
        handler = self._handlers.get(command.code)
        if handler is None:
            words = f"request type {command.code} not supported"
            self._answer(
                connection, command, PushReply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=words)
            )
            return
        try:
            answer = handler(command, connection.address)
        except Exception as error:  # noqa: BLE001 - as below
            self._failed(connection, command, error)
            return
        if inspect.isawaitable(answer):
            task = asyncio.get_running_loop().create_task(self._answer_later(connection, command, answer))
            self._running[task] = None
            task.add_done_callback(self._running.pop)
        else:
            self._answer(connection, command, answer)

    async def close(self) -> None:
        """Cancel answers in progress."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _answer_later(
        self, connection: Connection, command: Command, answer: Awaitable[PushReply | None]
    ) -> None:
        try:
            reply = await answer
        except Exception as error:  # noqa: BLE001 - the broker waits for an answer, whatever it is
            self._failed(connection, command, error)
        else:
            self._answer(connection, command, reply)

    def _failed(self, connection: Connection, command: Command, error: Exception) -> None:
        log.error("answering request %d of %s failed", command.code, connection.address, exc_info=error)
        words = f"{type(error).__name__}: {error}"
        self._answer(connection, command, PushReply(ResponseCode.SYSTEM_ERROR, remark=words))

    def _answer(self, connection: Connection, command: Command, reply: PushReply | None) -> None:
        if command.is_oneway:
            return
        reply = reply or PushReply()
        frame = encode_response(
            reply.code, command.opaque, reply.header, reply.body, reply.remark, command.serialize_type
        )
        try:
            connection.send(frame)
        except LinkError:
            log.info("%s is gone: the answer to its request %d is dropped", connection.address, command.code)
