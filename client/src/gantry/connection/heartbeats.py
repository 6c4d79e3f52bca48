"""Tells every broker who we are: every 30 s, at once when that changes, and first of all on each new connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from gantry.connection.members import Members
from gantry.connection.routing import Routing
from gantry.settings import ClientSettings
from gantry_link.connection import Connection
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.pool import ConnectionPool
from gantry_link.store_calls import StoreCalls
from gantry_wire.bodies import encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.frame import Command
from gantry_wire.headers import UnregisterClientHeader

log: logging.Logger = logging.getLogger("gantry")
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.5, 30.0
GATHER_SECONDS = 0.01
"""Changes that come together are told together."""


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
        self._told: set[str] = set()
        """Addresses that were told at least once."""

    def soon(self) -> None:
        """Tell all brokers in a moment."""
        self._wanted.set()

    def brokers_changed(self) -> None:
        """Hear that routes changed: brokers that were never told are told soon."""
        has_members = self._members.producers or self._members.consumers
        if has_members and set(self._addresses()) - self._told:
            self._wanted.set()

    def all_told(self) -> bool:
        """Whether every broker was told what we are now."""
        return not self._wanted.is_set() and not set(self._addresses()) - self._told

    async def run(self) -> None:
        """Tell all brokers again and again, sooner where one could not be reached, until cancelled."""
        wait, retry = self._interval, RETRY_SECONDS_MIN
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wanted.wait()
                await asyncio.sleep(GATHER_SECONDS)
            self._wanted.clear()
            try:
                all_told = await self.beat()
            except Exception:
                log.exception("the heartbeat failed")
                all_told = False
            retry = RETRY_SECONDS_MIN if all_told else min(retry * 2, RETRY_SECONDS_MAX)
            wait = self._interval if all_told else min(retry, self._interval)

    async def beat(self) -> bool:
        """Tell all brokers now; False when one could not be told."""
        if self._body() is None:
            return True
        told = await asyncio.gather(*(self._tell(address) for address in self._addresses()))
        return all(told)

    def greet(self, connection: Connection) -> None:
        """Tell the broker on a new connection who we are, before anything else goes over it."""
        body = self._body()
        if body is None:
            return
        try:
            answer = connection.request(RequestCode.HEART_BEAT, None, body, self._timeout)
        except LinkError:
            return
        answer.add_done_callback(lambda done: self._greeted(connection.address, done))

    async def say_goodbye(self, client_id: str, producer: str | None, consumer: str | None) -> None:
        """35: a group leaves. Only brokers with an open connection need to hear it."""
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

    async def _tell(self, address: str) -> bool:
        try:
            await self._pool.get(address)
            body = self._body()  # made now: who has left while a connection was made must not be back
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
        self._told.add(address)
        if answer.code:
            log.warning("%s refused the heartbeat with code %d: %s", address, answer.code, answer.remark)

    def _body(self) -> bytes | None:
        data = self._members.heartbeat(self.client_id)
        return None if data is None else encode_body(data)

    def _addresses(self, *, slaves: bool = False) -> list[str]:
        """Only consumers need the slaves to know them."""
        with_slaves = slaves or bool(self._members.consumers)
        return [
            address
            for broker in self._routing.brokers()
            for address in self._routing.addresses(broker, slaves=with_slaves)
        ]
