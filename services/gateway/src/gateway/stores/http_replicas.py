"""The Replicas port over HTTP: `GET /v1/replication` of a store, whose HTTP port is two above its remoting port."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import joined
from gantry_chassis.settings.worker import HTTP_PORT_ABOVE

PATH = "/v1/replication"
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
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return _decode(await self._get(host.strip("[]"), int(port) + HTTP_PORT_ABOVE))
        except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
            _log.debug("a store does not say what it replicates", address=address, error=repr(error))
            return None

    async def _get(self, host: str, port: int) -> bytes:
        reader, writer = await asyncio.open_connection(host, port, limit=ANSWER_BYTES_MAX)
        try:
            head = f"GET {PATH} HTTP/1.1\r\nhost: {joined(host, port)}\r\nconnection: close\r\n".encode()
            proof = b"" if self._proof is None else b"authorization: " + self._proof(f"GET {PATH}") + b"\r\n"
            writer.write(head + proof + b"\r\n")
            answer = await reader.read(ANSWER_BYTES_MAX)
            while part := await reader.read(ANSWER_BYTES_MAX):
                answer += part
                if len(answer) > ANSWER_BYTES_MAX:
                    raise OSError(f"over {ANSWER_BYTES_MAX} bytes")
        finally:
            writer.close()
        first, _, body = answer.partition(b"\r\n\r\n")
        if not first.startswith(b"HTTP/1.1 200 "):
            raise OSError(f"status {first[9:12].decode('ascii', 'replace')}")
        return body
