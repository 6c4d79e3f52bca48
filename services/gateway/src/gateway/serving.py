"""The HTTP server: uvicorn's protocol on our own socket, its limits, and an end that lets calls finish."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 64 * 1024
BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75


class GatewayProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with a bound on the request's head, and problems for what cannot be read."""

    _head_bytes = 0

    def on_message_begin(self) -> None:
        """Begin to count the head."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count and keep a part of the path."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count and keep a header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            raise ValueError(
                f"the head of the request is over {HEAD_BYTES_MAX} bytes"
            )  # the parser stops here

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - our words say more
        """Answer what is no HTTP, or has too large a head, as a problem, and close."""
        is_long = self._head_bytes > HEAD_BYTES_MAX
        status, title = (431, "Request Header Fields Too Large") if is_long else (400, "Bad Request")
        words = (
            f"path and headers may have {HEAD_BYTES_MAX} bytes together"
            if is_long
            else "this is no HTTP/1.1 request"
        )
        body = (
            f'{{"title":"{title}","status":{status},"code":"INVALID_PARAMETER","retryable":false,"requestId":"",'
            f'"detail":"{words}","field":"headers","type":"about:blank"}}'
        ).encode()
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        ).encode()
        self.transport.write(head + body)
        self.transport.close()


class HttpServer:
    """Serves an ASGI application on one port until closed."""

    def __init__(self, app: Callable[..., Any], *, drain_seconds: int) -> None:
        config = Config(
            app,
            http=GatewayProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=drain_seconds,
        )
        config.load()
        self._server = Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._sockets: list[socket.socket] = []

    async def start(self, host: str, port: int, *, reuse_port: bool) -> int:
        """Listen; return the port. OSError when it is taken."""
        listener = listen(host, port, reuse_port=reuse_port)
        self._sockets = [listener]
        # Only its start and its end: uvicorn's own loop would wake an idle process and take the signals away.
        await self._server.startup(sockets=self._sockets)
        return int(listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening, let running calls end, close the connections."""
        await self._server.shutdown(sockets=self._sockets)
        await asyncio.sleep(0)


def listen(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
