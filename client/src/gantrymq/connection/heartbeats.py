"""Sends heartbeats to every broker: every 30 s, at once when the members change, and first on each new connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from gantry_link.calling.store_calls import StoreCalls
from gantry_link.connections.connection import Connection
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import UnregisterClientHeader
from gantrymq.connection.members import Members
from gantrymq.connection.routing import Routing
from gantrymq.settings import ClientSettings

log: logging.Logger = logging.getLogger("gantrymq")
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.5, 30.0
GATHER_SECONDS = 0.01
"""Changes within this time share a heartbeat."""


class Heartbeats:
    """The heartbeats of one client."""

    def __init__(
        self, pool: ConnectionPool, routing: Routing, members: Members, settings: ClientSettings
    ) -> None:
        self.client_id = ""
        self._pool, self._routing, self._members = pool, routing, members
        self._interval = settings.heartbeat_interval
        self._timeout = settings.request_timeout
        self._wanted = asyncio.Event()
        self._informed: set[str] = set()
        """Addresses that got at least one heartbeat."""

    def soon(self) -> None:
        """Send a heartbeat to all brokers in a moment."""
        self._wanted.set()

    def brokers_changed(self) -> None:
        """React to changed routes: new brokers get a heartbeat soon."""
        has_members = self._members.producers or self._members.consumers
        if has_members and set(self._addresses()) - self._informed:
            self._wanted.set()

    def all_informed(self) -> bool:
        """Whether every broker has the current state."""
        return not self._wanted.is_set() and not set(self._addresses()) - self._informed

    async def run(self) -> None:
        """Send heartbeats to all brokers until cancelled, sooner if one could not be reached."""
        wait, retry = self._interval, RETRY_SECONDS_MIN
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wanted.wait()
                await asyncio.sleep(GATHER_SECONDS)
            self._wanted.clear()
            try:
                all_informed = await self.beat()
            except Exception:
                log.exception("the heartbeat failed")
                all_informed = False
            retry = RETRY_SECONDS_MIN if all_informed else min(retry * 2, RETRY_SECONDS_MAX)
            wait = self._interval if all_informed else min(retry, self._interval)

    async def beat(self) -> bool:
        """Send a heartbeat to all brokers now; False if one could not be reached."""
        if self._body() is None:
            return True
        results = await asyncio.gather(*(self._send_to(address) for address in self._addresses()))
        return all(results)

    def greet(self, connection: Connection) -> None:
        """Send the heartbeat first on a new connection."""
        body = self._body()
        if body is None:
            return
        try:
            answer = connection.request(RequestCode.HEART_BEAT, None, body, self._timeout)
        except LinkError:
            return
        answer.add_done_callback(lambda done: self._greeted(connection.address, done))

    async def unregister(self, client_id: str, producer: str | None, consumer: str | None) -> None:
        """Unregister a group (35). Only brokers with an open connection need it."""
        header = UnregisterClientHeader(
            client_id=client_id, producer_group=producer or "", consumer_group=consumer or ""
        )
        connected = set(self._pool.addresses())
        open_ones = [address for address in self._addresses(slaves=True) if address in connected]
        await asyncio.gather(*(self._leave(address, header) for address in open_ones))

    def _greeted(self, address: str, done: asyncio.Future[Command]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None and not done.cancelled():
            self._hear(address, done.result())

    async def _leave(self, address: str, header: UnregisterClientHeader) -> None:
        with contextlib.suppress(BrokerRefused, LinkError):
            await StoreCalls(self._pool, address, self._timeout).ask(RequestCode.UNREGISTER_CLIENT, header)

    async def _send_to(self, address: str) -> bool:
        try:
            await self._pool.get(address)
            body = self._body()  # built now: a member that left while the connection was made must not return
            if body is None:
                return True
            answer = await StoreCalls(self._pool, address, self._timeout).call(
                RequestCode.HEART_BEAT, None, body
            )
        except LinkError as error:
            log.info("no heartbeat to %s: %s", address, error)
            return False
        self._hear(address, answer)
        return True

    def _hear(self, address: str, answer: Command) -> None:
        self._informed.add(address)
        if answer.code:
            log.warning("%s refused the heartbeat with code %d: %s", address, answer.code, answer.remark)

    def _body(self) -> bytes | None:
        data = self._members.heartbeat(self.client_id)
        return None if data is None else encode_body(data)

    def _addresses(self, *, slaves: bool = False) -> list[str]:
        """Return the addresses for heartbeats. Only consumers need them sent to slaves."""
        with_slaves = slaves or bool(self._members.consumers)
        return [
            address
            for broker in self._routing.brokers()
            for address in self._routing.addresses(broker, slaves=with_slaves)
        ]
