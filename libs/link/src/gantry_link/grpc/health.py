"""`grpc.health.v1.Health`: whether services are ready, for load balancers and `grpc_health_probe`."""

import asyncio
from collections.abc import Collection
from enum import IntEnum

from gantry_link.grpc.calls import CallInfo, Methods, Stream
from gantry_link.grpc.protobuf import fields, number_field, text_of
from gantry_link.grpc.status import GrpcError, GrpcStatus

SERVICE = "grpc.health.v1.Health"
WHOLE_SERVER = ""


class _Status(IntEnum):
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


class Health:
    """The state of a server. All its services are ready, or none."""

    def __init__(self, services: Collection[str]) -> None:
        """Begin as not ready. `services` are the names of the server's services."""
        self._services = frozenset((*services, WHOLE_SERVER, SERVICE))
        self._is_serving = False
        self._changed = asyncio.Event()

    @property
    def methods(self) -> Methods:
        """Check and Watch."""
        return Methods({f"/{SERVICE}/Check": self._check}, {f"/{SERVICE}/Watch": self._watch})

    def set_serving(self, is_serving: bool) -> None:
        """Say whether the server is ready."""
        if is_serving != self._is_serving:
            self._is_serving = is_serving
            self._changed.set()
            self._changed = asyncio.Event()

    def _check(self, _info: CallInfo, message: bytes) -> bytes:
        status = self._status(_service(message))
        if status == _Status.SERVICE_UNKNOWN:
            raise GrpcError(GrpcStatus.NOT_FOUND, "no such service")
        return number_field(1, status)

    async def _watch(self, stream: Stream) -> None:
        message = await stream.receive()
        service = _service(message or b"")
        while True:
            changed = self._changed
            await stream.send(number_field(1, self._status(service)))
            await changed.wait()

    def _status(self, service: str) -> _Status:
        if service not in self._services:
            return _Status.SERVICE_UNKNOWN
        return _Status.SERVING if self._is_serving else _Status.NOT_SERVING


def _service(message: bytes) -> str:
    return next((text_of(content) for number, content in fields(message) if number == 1), WHOLE_SERVER)
