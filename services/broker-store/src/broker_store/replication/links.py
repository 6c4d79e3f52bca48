"""Connections of a replica to the others of its group: one to each, over which everything leaves in order, one-way.

What cannot leave now is dropped: the role says everything again, and shipping goes back after a loss. Nothing waits here. Connections are kept
open while there is nothing to say, so that no takeover waits for one.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from broker_store.replication.frames import SHIPMENT_BYTES_MAX
from gantry_link.connections.connection import Connection
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_link.limits import LinkLimits
from gantry_wire.frames.encode import encode_request

LIMITS = LinkLimits(output_bytes_max=2 * SHIPMENT_BYTES_MAX)
"""A shipment is queued as a whole."""
CONNECTION_CLASS = "replication"
RETRY_SECONDS = 0.1

OnLost = Callable[[Connection, str], None]
MakePool = Callable[[OnLost, LinkLimits], ConnectionPool]
"""Makes a pool that calls this when a connection ended, with these limits; with introductions and TLS where the store has them."""


class Links:
    """The connections. `addresses` are "host:port" of the other replicas, by their names."""

    def __init__(self, addresses: Mapping[str, str], make_pool: MakePool) -> None:
        self._addresses = dict(addresses)
        self._names = {address: name for name, address in addresses.items()}
        self._on_lost: Callable[[str], None] | None = None
        self._connecting: dict[str, asyncio.Task[None]] = {}
        self._pool = make_pool(self._lost, LIMITS)

    def start(self, on_lost: Callable[[str], None]) -> None:
        """Connect from now on, and again after each loss; call this with the name of a replica when its connection ended."""
        self._on_lost = on_lost
        for peer, address in self._addresses.items():
            self._connect(peer, address)

    def send(self, peer: str, code: int, bodies: Sequence[bytes]) -> bool:
        """Queue one-way requests to a peer: all of them, or none. They leave at the end of this turn. False: there is no connection, or it is full."""
        address = self._addresses.get(peer)
        if address is None or self._on_lost is None:
            return False
        connection = self._pool.get_nowait(address, CONNECTION_CLASS)
        if connection is None:
            self._connect(peer, address)
            return False
        frames = [encode_request(code, connection.next_opaque(), None, body, oneway=True) for body in bodies]
        try:
            connection.send(frames[0] if len(frames) == 1 else b"".join(frames))
        except LinkError:
            return False
        return True

    def renew(self, peer: str) -> None:
        """Connect again to a peer that does not hear what is sent: its machine may have lost the connection without a word."""
        address = self._addresses.get(peer)  # a leader of before may be none of the settings
        connection = None if address is None else self._pool.get_nowait(address, CONNECTION_CLASS)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Close all connections; what is queued still leaves."""
        self._on_lost = None
        for task in list(self._connecting.values()):
            task.cancel()
        if self._connecting:
            await asyncio.wait(list(self._connecting.values()))
        await self._pool.close()

    def _connect(self, peer: str, address: str, pause_seconds: float = 0) -> None:
        if peer not in self._connecting:
            task = asyncio.ensure_future(self._open(address, pause_seconds))
            self._connecting[peer] = task
            task.add_done_callback(lambda _: self._connecting.pop(peer))

    async def _open(self, address: str, pause_seconds: float) -> None:
        await asyncio.sleep(pause_seconds)
        while True:
            try:
                await self._pool.get(address, CONNECTION_CLASS)
            except LinkError:
                await asyncio.sleep(RETRY_SECONDS)  # the pool pauses between its attempts, too
            else:
                return

    def _lost(self, connection: Connection, _connection_class: str) -> None:
        name = self._names.get(connection.address)
        if name is not None and self._on_lost is not None:
            self._on_lost(name)
            # A peer that is full, or a proxy of one that does not run, accepts and closes at once.
            self._connect(name, connection.address, RETRY_SECONDS)
