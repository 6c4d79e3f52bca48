"""The Replicas port over HTTP: `/v1/replication` of a store, whose HTTP port is two above its remoting port."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import joined
from gantry_chassis.settings.worker import HTTP_PORT_ABOVE
from gateway.ports.stores import PeerAway

PATH = "/v1/replication"
MOVE_PATH = "/v1/replication/move-leader"
OK, ACCEPTED, CONFLICT = 200, 202, 409
ANSWER_SECONDS_MAX = 1.0
ANSWER_BYTES_MAX = 256 * 1024

_log = get_logger()
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class HttpReplicas:
    """Asks each store in a connection of its own: tools ask seldom."""

    def __init__(self, proof: Callable[[str], bytes] | None) -> None:
        """`proof` makes the value of `Authorization` for a request; None: access control is off."""
        self._proof = proof

    async def state(self, address: str) -> dict[str, Any] | None:
        """GET /v1/replication."""
        try:
            status, body = await self._call(address, "GET", PATH)
            if status != OK:
                raise OSError(f"status {status}")
            return _decode(body)
        except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
            _log.debug("a store does not say what it replicates", address=address, error=repr(error))
            return None

    async def move_leader(self, address: str, to: str) -> str:
        """POST /v1/replication/move-leader."""
        try:
            status, body = await self._call(
                address, "POST", MOVE_PATH, f"?to={quote(to, safe='')}" if to else ""
            )
            if status == ACCEPTED:
                return ""
            if status == CONFLICT:
                return str(_decode(body)["error"])
        except (OSError, TimeoutError, ValueError, KeyError, msgspec.DecodeError) as error:
            raise PeerAway(address, True, repr(error)) from error
        raise PeerAway(address, False, f"status {status}")

    async def _call(self, address: str, method: str, path: str, query: str = "") -> tuple[int, bytes]:
        """Return status and body of an answer. Raises OSError, TimeoutError, and ValueError for an answer that is not HTTP."""
        host, _, port = address.rpartition(":")
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await self._exchange(
                host.strip("[]"), int(port) + HTTP_PORT_ABOVE, f"{method} {path}", query
            )

    async def _exchange(self, host: str, port: int, request: str, query: str) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection(host, port, limit=ANSWER_BYTES_MAX)
        try:
            head = f"{request}{query} HTTP/1.1\r\nhost: {joined(host, port)}\r\ncontent-length: 0\r\nconnection: close\r\n".encode()
            proof = b"" if self._proof is None else b"authorization: " + self._proof(request) + b"\r\n"
            writer.write(head + proof + b"\r\n")
            answer = await reader.read(ANSWER_BYTES_MAX)
            while part := await reader.read(ANSWER_BYTES_MAX):
                answer += part
                if len(answer) > ANSWER_BYTES_MAX:
                    raise OSError(f"over {ANSWER_BYTES_MAX} bytes")
        finally:
            writer.close()
        first, _, body = answer.partition(b"\r\n\r\n")
        version, _, rest = first.partition(b" ")
        if version != b"HTTP/1.1":
            raise ValueError("it does not answer in HTTP/1.1")
        return int(rest[:3]), body
