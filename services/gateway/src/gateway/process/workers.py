"""The metrics of all processes that share a port: the one that is scraped asks the others at their own ports.

Each worker's series have the label `worker`. A sum would fall when a worker restarts, and Prometheus would take the next rise for
growth.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gantry_chassis.http.server import Request, Response
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import joined
from gantry_chassis.metrics import FamilyShown, Metrics, text_of

if TYPE_CHECKING:
    from gantry_guard.inner_http import InnerHttp

PATH = "/figures"
HOST = "127.0.0.1"
ANSWER_SECONDS_MAX = 2.0
"""A worker that does not respond within this time is shown as down; a scrape has 10 s by default."""
ANSWER_BYTES_MAX = 16 * 1024 * 1024

_log = get_logger()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[FamilyShown]).decode


class Workers:
    """The processes that share a port, including this one."""

    def __init__(
        self, metrics: Metrics, worker: int, ports: Sequence[int], inner: "InnerHttp | None"
    ) -> None:
        """`ports` are the workers' own ports, by worker number; empty: this process is alone.

        `inner` proves this worker to the others; None: access control is off.
        """
        self._metrics, self._worker, self._ports, self._inner = metrics, worker, ports, inner

    def answer(self, _request: Request) -> Response:
        """Send this worker's metrics to another worker."""
        return Response(200, _encode(self._metrics.shown()), "application/msgpack")

    async def text(self) -> bytes:
        """Return the metrics of all workers in Prometheus' text format; a process that is alone adds no label."""
        if not self._ports:
            return await self._metrics.text()
        asked = [self._metrics_of(number) for number in range(len(self._ports))]
        answers = dict(enumerate(await asyncio.gather(*asked)))
        ups = [((str(number),), (float(shown is not None),)) for number, shown in answers.items()]
        help_text = "Whether a worker of the gateway answered: 1, or 0 for one whose figures are not here."
        up = FamilyShown("gauge", "gateway_worker_up", help_text, ("worker",), (), ups)
        parts = [({"worker": str(number)}, shown) for number, shown in answers.items() if shown is not None]
        return await text_of([({}, [up]), *parts])

    def _proof(self) -> bytes:
        if self._inner is None:
            return b""
        return b"authorization: " + self._inner.header(f"GET {PATH}") + b"\r\n"

    async def _metrics_of(self, number: int) -> list[FamilyShown] | None:
        """Return the metrics of a worker; None if it does not respond, for example while it restarts."""
        if number == self._worker:
            return self._metrics.shown()
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return _decode(await _get(self._ports[number], self._proof()))
        except (OSError, TimeoutError, msgspec.DecodeError, msgspec.ValidationError) as error:
            _log.warning("a worker does not report its metrics", worker=number, error=repr(error))
            return None


async def _get(port: int, proof: bytes) -> bytes:
    """Return a worker's response. Raises OSError, also for an invalid response. `proof` is a header line, or empty."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=ANSWER_BYTES_MAX)
    try:
        head = f"GET {PATH} HTTP/1.1\r\nhost: {joined(HOST, port)}\r\nconnection: close\r\n"
        writer.write(head.encode() + proof + b"\r\n")
        answer = bytearray()
        while part := await reader.read(64 * 1024):
            answer += part
            if len(answer) > ANSWER_BYTES_MAX:
                raise OSError(f"over {ANSWER_BYTES_MAX} bytes")
    finally:
        writer.close()
    first, _, body = bytes(answer).partition(b"\r\n\r\n")
    if not first.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"status {first[9:12].decode('ascii', 'replace')}")
    return body
