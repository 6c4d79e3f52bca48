"""Hints over NATS: may be lost, never wait, never raise. A slow poll backs up every hint.

Subjects: `gantry.route.<topic>`, `gantry.data`, `gantry.group`.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.private_files import read_secret
from gantry_chassis.nats_connection import (
    TRIES,
    WAIT_SECONDS,
    NatsPlain,
    Server,
    close,
    connect,
    servers_of,
)

if TYPE_CHECKING:
    import ssl

    from nats.aio.client import Client
    from nats.aio.msg import Msg

WAITING_HINTS_MAX = 1024
RECONNECT_SECONDS = 1.0
CHECK_SECONDS = 5.0
"""Interval of the check that the connection still reads: the driver stops silently at a subject that is not UTF-8."""
ANSWER_SECONDS_MAX = 2.0

Receive = Callable[[str, bytes], None]

_log = get_logger()


class Hints:
    """A self-healing connection to NATS. Hints published while it is down are dropped."""

    def __init__(
        self,
        url: str,
        service: str,
        rng: random.Random,
        token_file: str = "",
        tls: "Callable[[], ssl.SSLContext] | None" = None,
    ) -> None:
        """Take the servers' URLs, separated by commas. Without any there are no hints, and the slow polls do the work.

        The servers are one cluster: each has the hints of all. A connection that is lost or refused is followed by one to the next server.
        A URL with tls:// needs `tls`, which returns the context for a new connection; all servers must then speak TLS.
        """
        self._tls = tls
        self._urls, self._service, self._token_file = servers_of(url), service, token_file
        self._turn = 0
        """Which of the servers gets the next connection."""
        self._rng = rng
        self._client: Client | None = None
        self._subscriptions: list[tuple[str, Receive]] = []
        self._waiting: dict[tuple[str, bytes], None] = {}
        self._wake = asyncio.Event()
        self._refusal = ""
        self.sent = 0
        self.received = 0
        self.dropped = 0

    @property
    def is_connected(self) -> bool:
        """Whether hints can be sent now."""
        return self._client is not None and self._client.is_connected

    def publish(self, subject: str, payload: bytes = b"") -> None:
        """Send a hint in the loop's next turn; duplicates of a turn are sent once."""
        if not self.is_connected or len(self._waiting) >= WAITING_HINTS_MAX:
            self.dropped += 1
            return
        self._waiting[(subject, payload)] = None
        self._wake.set()

    def subscribe(self, subject: str, receive: Receive) -> None:
        """Call `receive(subject, payload)` for each hint. Subscribe before `run` starts."""
        self._subscriptions.append((subject, receive))

    async def run(self) -> None:
        """Connect and send published hints until cancelled. Supervise it as a named loop."""
        if not self._urls:
            return
        while True:
            client = self._client = await self._connect()
            try:
                await self._serve(client)
            finally:
                self._client = None
                await close(client)
            await self._go_to_next()

    async def _serve(self, client: "Client") -> None:
        """Receive and send until the client closes. After a server error it never reconnects by itself."""
        for subject, receive in self._subscriptions:
            await client.subscribe(subject, cb=self._receiver(receive))
        echo = _Echo(f"_INBOX.{self._rng.getrandbits(128):032x}", asyncio.Event())
        await client.subscribe(echo.subject, cb=echo.receive)
        loop = asyncio.get_running_loop()
        check_at = loop.time() + CHECK_SECONDS
        while not client.is_closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(check_at):
                    await self._wake.wait()
            if loop.time() >= check_at:
                if client.is_connected and not await self._is_reading(client, echo):
                    return
                check_at = loop.time() + CHECK_SECONDS
            self._wake.clear()
            hints, self._waiting = self._waiting, {}
            await self._send(client, list(hints))

    async def _is_reading(self, client: "Client", echo: "_Echo") -> bool:
        try:
            echo.came.clear()
            await client.publish(echo.subject)
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await echo.came.wait()
        except Exception as error:  # noqa: BLE001 - nats-py raises many kinds
            _log.warning("hints stalled: reconnecting to NATS", error=str(error) or repr(error))
            return False
        return True

    async def _connect(self) -> "Client":
        while True:
            # An unreachable server at our start is not an error: it may start later.
            try:
                client = await self._connect_once()
            except Exception as error:  # noqa: BLE001 - nats-py raises many kinds
                if isinstance(error, NatsPlain):
                    self._warn(str(error))
                _log.debug("no hints yet: NATS is unreachable", error=str(error))
                await self._go_to_next()
            else:
                self._refusal = ""
                return client

    async def _connect_once(self) -> "Client":
        """Connect to the server whose turn it is. One that refuses is asked again for a while only if there is no other."""
        server = Server(self._urls[self._turn], self._service, self._read_token(), self._tls)
        is_alone = len(self._urls) == 1
        wait_seconds, tries = (WAIT_SECONDS, TRIES) if is_alone else (0, 1)
        return await connect(server, self._failed, self._closed, wait_seconds=wait_seconds, tries=tries)

    async def _go_to_next(self) -> None:
        """Let the next server have its turn: at once, but with a pause after the last one."""
        self._turn = (self._turn + 1) % len(self._urls)
        if self._turn == 0:
            await _pause(self._rng)

    def _read_token(self) -> str | None:
        try:
            return read_secret(self._token_file) or None
        except (OSError, UnicodeDecodeError) as error:
            self._warn(f"cannot read nats_token_file: {error}")
            raise

    async def _failed(self, error: Exception) -> None:
        if "authorization" in str(error).lower():
            self._warn("NATS refused the token: nats_token_file must hold the token NATS was started with")
        _log.debug("nats", error=str(error))

    def _warn(self, refusal: str) -> None:
        """Log why there are no hints: once, not at each attempt."""
        if refusal != self._refusal:
            self._refusal = refusal
            _log.warning("no hints, only slow polls", why=refusal, nats_token_file=self._token_file)

    async def _closed(self) -> None:
        self._wake.set()

    def _receiver(self, receive: Receive) -> "Callable[[Msg], asyncio.Future[None]]":
        async def on_message(message: "Msg") -> None:
            self.received += 1
            receive(message.subject, message.data)

        return on_message  # pyright: ignore[reportReturnType]  # nats-py takes any coroutine function

    async def _send(self, client: "Client", hints: list[tuple[str, bytes]]) -> None:
        for subject, payload in hints:
            if not client.is_connected:
                self.dropped += 1
                continue
            try:
                await client.publish(subject, payload)
                self.sent += 1
            except Exception as error:  # noqa: BLE001 - a hint may be lost; the poll behind it stays
                self.dropped += 1
                _log.debug("hint lost", subject=subject, error=str(error))


class _Echo(NamedTuple):
    """A subject of our own: what we publish there returns while the connection is read."""

    subject: str
    came: asyncio.Event

    async def receive(self, _message: "Msg") -> None:
        """Record that it arrived."""
        self.came.set()


async def _pause(rng: random.Random) -> None:
    await asyncio.sleep(RECONNECT_SECONDS * rng.uniform(0.5, 1.0))
