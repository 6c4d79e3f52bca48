"""Handles frames: finds the command of a code and sends its reply when it is ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.metrics import Counter, Family, Metrics
from gantry_link.serving.peer import Peer
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.frames.frame_stream import RawFrame
from nameserver.handlers import COMMANDS, Commands, Reply
from nameserver.routes.registry import BrokerIsAlive

if TYPE_CHECKING:
    from gantry_guard.door import Door

OTHER = "other"

_log = get_logger()


class Remoting:
    """The handler of the remoting server."""

    def __init__(
        self, commands: Commands, metrics: Metrics, door: Door | None, *, has_open_routes: bool
    ) -> None:
        """`door`: None where access control is off. `has_open_routes`: whether it lets everybody ask for the route of a topic (105)."""
        self._commands, self._door, self._has_open_routes = commands, door, has_open_routes
        self._requests: Family[Counter] = metrics.counters(
            "nameserver_requests", "Requests by code.", ("code",)
        )
        self._by_code = {code: self._requests.labels(RequestCode(code).name) for code in COMMANDS}
        self._other = self._requests.labels(OTHER)

    def receive(self, peer: Peer, raw: RawFrame) -> None:
        """Handle one frame. The server answers exceptions."""
        command = decode_command(raw) if self._has_open_routes else None
        is_open = command is not None and command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        if self._door is not None and not is_open and not self._door.admit(peer, raw):
            return
        command = command or decode_command(raw)
        if command.is_response:
            return
        handler = COMMANDS.get(command.code)
        if handler is None:
            self._other.value += 1
            message = f" request type {command.code} not supported"
            raise RefusedRequest(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, message)
        self._by_code[command.code].value += 1
        try:
            reply = handler(self._commands, command, peer.id)
        except RefusedRequest as refused:
            if isinstance(refused.__cause__, BrokerIsAlive):
                _log.warning(
                    "refused a request for a living broker from another connection",
                    peer="{}:{}".format(*peer.remote),
                    reason=str(refused),
                )
            raise
        if reply.after is None:
            _send(peer, command, reply)
        else:
            reply.after.add_done_callback(lambda done: _send_when_saved(peer, command, reply, done))


def _send(peer: Peer, command: Command, reply: Reply) -> None:
    if not command.is_oneway:
        peer.send(encode_response(ResponseCode.SUCCESS, command.opaque, reply.header, reply.body))


def _send_when_saved(peer: Peer, command: Command, reply: Reply, done: asyncio.Future[None]) -> None:
    error = done.exception()
    if error is None:
        _send(peer, command, reply)
    elif not command.is_oneway:
        message = f"changed, but not on disk: {error}"
        peer.send(encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, None, b"", message))
