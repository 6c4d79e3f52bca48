"""The remoting listener of a service that serves private codes with JSON bodies: typed requests, typed answers.

Each request is a task, cancelled when its client disconnects. Knows no codes: it gets the table of routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.limits import LinkLimits
from gantry_link.serving.budget import Budget
from gantry_link.serving.peer import Peer
from gantry_link.serving.server import RemotingServer
from gantry_link.serving.tls_door import TlsDoor
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.frames.frame_stream import RawFrame

AskT = TypeVar("AskT", bound=msgspec.Struct)
REQUESTS_MAX = 1024
"""Concurrent requests per client. Beyond, requests are refused with SYSTEM_BUSY."""
_TASKS = "service listener tasks"
_encode = msgspec.json.Encoder().encode


class Route(NamedTuple, Generic[AskT]):
    """One code: the type of the request's body, and a coroutine function that returns the answer's body.

    The function raises RefusedRequest (or another WireError) to refuse.
    """

    name: str
    kind: type[AskT]
    answer: Callable[[AskT], Awaitable[msgspec.Struct]]


Routes = Mapping[int, Route[Any]]


class ServiceListener:
    """Serves a table of routes on one port. Calls `count(route name, code)` for every answer."""

    def __init__(
        self,
        routes: Routes,
        *,
        count: Callable[[str, int], None] | None = None,
        failed: Callable[[str, Exception], None] | None = None,
        limits: LinkLimits | None = None,
        budget: Budget | None = None,
        admit: Callable[[Peer, RawFrame], bool] | None = None,
    ) -> None:
        """Call `failed(route name, error)` for an exception that is our own bug; the client gets code 1.

        `admit` gets each frame first. It returns False for one that it has answered, and raises RefusedRequest to refuse one.
        """
        self._routes, self._admit = routes, admit
        self._count, self._failed = count, failed
        self.server = RemotingServer(self._receive, on_close=self._peer_closed, limits=limits, budget=budget)

    async def listen(self, host: str, port: int, door: TlsDoor | None = None) -> int:
        """Listen on a port (0: any free one) and return it; with a `door`, for TLS too. Raises OSError if it is in use."""
        return await self.server.listen(host, port, door)

    async def close(self, drain_seconds: float = 0.0) -> None:
        """Send pending answers for at most this time, then close everything."""
        await self.server.close(drain_seconds)

    def _receive(self, peer: Peer, raw: RawFrame) -> None:
        if self._admit is not None and not self._admit(peer, raw):
            return
        command = decode_command(raw)
        if command.is_response:
            return
        route = self._routes.get(command.code)
        if route is None:
            remark = f" request type {command.code} not supported"
            raise RefusedRequest(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        tasks: set[asyncio.Task[None]] = peer.attributes.setdefault(_TASKS, set())
        if len(tasks) >= REQUESTS_MAX:
            remark = f"{REQUESTS_MAX} requests of this connection are in progress; send fewer at once"
            raise RefusedRequest(ResponseCode.SYSTEM_BUSY, remark)
        task = asyncio.get_running_loop().create_task(self._serve(peer, command, route), name=route.name)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _serve(self, peer: Peer, command: Command, route: Route[Any]) -> None:
        fields: dict[str, str] | None = None
        body, code, remark = b"", 0, None
        try:
            asked = decode_body(command.body or b"{}", route.kind)
            body = _encode(await route.answer(asked))
        except RefusedRequest as refused:
            code, remark, fields = int(refused.code), refused.remark, refused.fields
        except WireError as error:
            code, remark = int(error.code), str(error)
        except BrokerRefused as refused:  # forward the refusal of a store to the client
            code, remark, fields = int(refused.code), refused.remark, refused.fields
        except LinkError as error:
            code, remark = int(ResponseCode.SERVICE_NOT_AVAILABLE), f"{route.name}: {error}; try again"
        except Exception as error:  # noqa: BLE001 - one failed request must not affect the others of the connection
            code, remark = int(ResponseCode.SYSTEM_ERROR), f"{type(error).__name__}: {error}"
            if self._failed is not None:
                self._failed(route.name, error)
        if self._count is not None:
            self._count(route.name, code)
        if not command.is_oneway:
            peer.send(encode_response(code, command.opaque, fields, body, remark))

    def _peer_closed(self, peer: Peer) -> None:
        tasks: set[asyncio.Task[None]] = peer.attributes.get(_TASKS, set())
        for task in list(tasks):
            task.cancel()
