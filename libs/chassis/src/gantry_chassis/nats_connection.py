"""Connections to NATS: one for hints, and one for requests with answers. The only file that uses the driver.

The driver's own reconnecting is off: it would keep the token of its first connection, and it buffers what should fail at once.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gantry_chassis.machine.private_files import read_secret

if TYPE_CHECKING:
    import ssl

    from nats.aio.client import Client
    from nats.aio.msg import Msg

Tls = Callable[[], "ssl.SSLContext"]

CONNECT_SECONDS_MAX = 2.0
CLOSE_SECONDS_MAX = 1.0
WAIT_SECONDS = 1.0
TRIES = 60
PENDING_BYTES_MAX = 256 * 1024
OPEN_REQUESTS_MAX = 64
STATUS = "Status"
NO_RESPONDERS = "503"


class NatsPlain(ConnectionError):
    """A server speaks no TLS, and the url begins with tls://."""


class NotSent(ConnectionError):
    """No server got the request."""


class NoAnswer(ConnectionError):
    """No answer came: a server may have got the request, or not."""


class ConnectionLost(NoAnswer):
    """The connection was lost before the answer. A connection that broke while nobody used it is noticed so."""


def servers_of(urls: str) -> tuple[str, ...]:
    """Return the URLs of the servers that a setting `nats_url` names, separated by commas."""
    return tuple(filter(None, (url.strip() for url in urls.split(","))))


class Server(NamedTuple):
    """Where a connection goes, and as what. `tls` returns the context for a new connection; a url with tls:// needs it."""

    url: str
    name: str
    token: str | None
    tls: Tls | None


async def connect(
    server: Server,
    failed: Callable[[Exception], Awaitable[None]],
    closed: Callable[[], Awaitable[None]],
    *,
    wait_seconds: float = WAIT_SECONDS,
    tries: int = TRIES,
) -> "Client":
    """Return a connection that never reconnects by itself.

    A refused connection is tried again `tries` times, `wait_seconds` apart, within CONNECT_SECONDS_MAX. The driver raises many kinds of
    errors: OSError, TimeoutError and its own. A cancellation always raises CancelledError.
    """
    client = _client_class(needs_tls=server.tls is not None)()
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # it logs tracebacks of errors we recover from
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            await client.connect(
                server.url,
                name=server.name,
                token=server.token,
                tls=None if server.tls is None else server.tls(),
                reconnect_time_wait=wait_seconds,  # pyright: ignore[reportArgumentType]  # any number
                max_reconnect_attempts=tries,
                connect_timeout=1,
                allow_reconnect=False,
                error_cb=failed,
                closed_cb=closed,
                pending_size=PENDING_BYTES_MAX,
            )
        if not client.is_connected:
            raise ConnectionError("NATS closed the connection before it answered")
        _raise_if_cancelled()
    except BaseException:
        await close(client)
        _raise_if_cancelled()
        raise
    return client


def _raise_if_cancelled() -> None:
    """Raise CancelledError if the driver lost it.

    It waits by `asyncio.wait_for`, which before Python 3.12 returns the result, or raises the failure, that comes in the same turn.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def close(client: "Client") -> None:
    """Close a connection. A server that does not read delays it by CLOSE_SECONDS_MAX at most."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            await client.close()


def _client_class(*, needs_tls: bool) -> "type[Client]":
    """Return the driver's client, or one that says nothing to a server without TLS.

    The driver uses TLS only if the server's first line, which comes in clear, asks for it: without this check, anybody between could
    leave that out and read the token.
    """
    from nats.aio.client import Client

    class TlsClient(Client):
        async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
            if initial_connection and info.get("tls_required") is not True:
                raise NatsPlain("NATS offers no TLS, and nats_url begins with tls://")
            await super()._process_info(info, initial_connection)

    return TlsClient if needs_tls else Client


class Answer(NamedTuple):
    """What answered a request. `has_responder` is false if nobody listens on the subject; the request then had no effect."""

    payload: bytes
    has_responder: bool


class NatsRequests:
    """Requests with answers to one of several servers. Connects when needed; a server that does not answer is left for the next.

    A request is sent once, unless the caller says that it may be repeated.
    """

    def __init__(
        self,
        urls: Sequence[str],
        name: str,
        rng: random.Random,
        token_file: str = "",
        tls: Tls | None = None,
    ) -> None:
        """Take the servers' `urls` in the order of preference, at least one."""
        assert urls
        self._urls, self._name, self._token_file, self._tls = tuple(urls), name, token_file, tls
        self._inbox = f"_INBOX.{rng.getrandbits(128):032x}"
        self._next_id = 0
        self._next_url = 0
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self.first_server_name = ""
        """What the first of the servers calls itself; empty before a connection to it."""
        self.connections = 0
        """How often it connected. Another number: another server may answer."""

    async def request(
        self,
        subject: str,
        payload: bytes,
        seconds_max: float,
        headers: Mapping[str, str] | None = None,
        repeat_seconds: float | None = None,
    ) -> Answer:
        """Send a request and return its first answer. With `repeat_seconds` it is sent again so often until one comes.

        Raises NotSent if no server could be reached within `seconds_max`; ConnectionLost, or another NoAnswer when `seconds_max` passed.
        """
        assert len(self._open) < OPEN_REQUESTS_MAX
        try:
            async with asyncio.timeout(seconds_max):
                connection = await self._connected()
        except TimeoutError as error:
            raise NotSent("no NATS server was reached in time") from error
        self._next_id += 1
        key = f"{self._inbox}.{self._next_id}"
        answer = self._open[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds_max):
                while not answer.done():
                    await connection.publish(subject, payload, key, headers)
                    await connection.wait(answer, repeat_seconds)
                return answer.result()
        except TimeoutError as error:
            await self._leave(connection)
            raise NoAnswer(f"no answer from {connection.url} in {seconds_max:g} s") from error
        finally:
            del self._open[key]

    async def close(self) -> None:
        """Close the connection. A later request opens another."""
        if self._connection is not None:
            await self._leave(self._connection)

    async def _connected(self) -> "_Connection":
        """Return a living connection. Raises NotSent if each server refuses one."""
        async with self._connecting:
            if self._connection is None or self._connection.lost.is_set():
                self._connection = await self._connect_to_any()
                self.connections += 1
            return self._connection

    async def _connect_to_any(self) -> "_Connection":
        failures: list[str] = []
        for _ in self._urls:
            url = self._urls[self._next_url % len(self._urls)]
            try:
                return await self._connect_to(url)
            except Exception as error:  # noqa: BLE001 - nats-py raises many kinds
                failures.append(f"{url}: {str(error) or repr(error)}")
                self._next_url += 1
            except asyncio.CancelledError:  # the time of the request is over: this server may be the reason
                self._next_url += 1
                raise
        raise NotSent("; ".join(failures))

    async def _connect_to(self, url: str) -> "_Connection":
        token = read_secret(self._token_file) or None
        lost = asyncio.Event()

        async def failed(_error: Exception) -> None:
            """Each request shows its own failure."""

        async def closed() -> None:
            lost.set()

        client = await connect(
            Server(url, self._name, token, self._tls), failed, closed, wait_seconds=0, tries=1
        )
        if url == self._urls[0]:
            self.first_server_name = _name_of_server(client)
        try:
            await client.subscribe(f"{self._inbox}.*", cb=self._receive)  # pyright: ignore[reportArgumentType]  # any coroutine function
        except BaseException:
            await close(client)
            raise
        return _Connection(url, client, lost)

    async def _receive(self, message: "Msg") -> None:
        waiting = self._open.get(message.subject)
        if waiting is not None and not waiting.done():
            has_responder = (message.headers or {}).get(STATUS) != NO_RESPONDERS
            waiting.set_result(Answer(message.data, has_responder))

    async def _leave(self, connection: "_Connection") -> None:
        """Close a connection whose server does not answer; the next one goes to another server."""
        if self._connection is connection:
            self._connection = None
            self._next_url += 1
        connection.lost.set()
        await close(connection.client)


def _name_of_server(client: "Client") -> str:
    """Return what a server said of its name when the connection was made. The driver has no public name for it."""
    said: dict[str, Any] = client._server_info  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return str(said.get("server_name", ""))


class _Connection(NamedTuple):
    url: str
    client: "Client"
    lost: asyncio.Event

    async def publish(
        self, subject: str, payload: bytes, reply: str, headers: Mapping[str, str] | None
    ) -> None:
        """Send a request. Raises ConnectionLost if the connection is lost: a part of it may have been sent."""
        try:
            await self.client.publish(subject, payload, reply, dict(headers) if headers else None)
        except Exception as error:  # nats-py raises many kinds
            raise ConnectionLost(f"the connection to {self.url} is lost: {error}") from error

    async def wait(self, answer: asyncio.Future[Answer], seconds_max: float | None) -> None:
        """Wait for the answer, or `seconds_max`. Raises ConnectionLost when the connection is lost before it came."""
        ended = asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait((answer, ended), timeout=seconds_max, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if self.lost.is_set() and not answer.done():
            raise ConnectionLost(f"the connection to {self.url} was lost before the answer")
