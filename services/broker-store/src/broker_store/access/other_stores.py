"""Follows the other brokers of the cluster, and keeps what they have: a change that one of them takes reaches every one, and stays there.

Replicas of the own broker are not followed: what this store's log has is what they have.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from broker_store.access.change_log import ChangeLog
from broker_store.access.followed import Followed
from broker_store.state_records.entry_log import ROLLED_AT_ONCE
from gantry_access.entries.entry import Entry
from gantry_access.entries.table import AccessTable
from gantry_chassis.logs.structured import get_logger
from gantry_guard.following import AccessFollower
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.connection import Connection
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_wire.bodies.cluster import ClusterInfo
from gantry_wire.errors import RefusedRequest, WireError

LOOK_SECONDS = 1.0
"""How often the nameservers are asked which stores there are. A new store is followed about as soon."""
RETRY_SECONDS = 1.0
"""Pause after news could not be stored."""
SOON_SECONDS = 0.1
"""Interval of questions to the nameservers at a start, until one has answered."""

_log = get_logger()


class OtherStores:
    """The other brokers of this store's cluster."""

    def __init__(
        self, pool: ConnectionPool, nameservers: str, cluster: str, own_broker: str, table: AccessTable, log: ChangeLog,
        followed: Followed, is_introduced: Callable[[Connection], bool],
    ) -> None:  # fmt: skip
        """`pool` introduces its connections, `is_introduced` returns whether it did."""
        self._names = NameserverClient(pool, nameservers)
        self._cluster, self._own_broker = cluster, own_broker
        self._log, self._followed = log, followed
        self._addresses: list[str] = []
        self._table = table
        self._is_alone = False
        """The first answer of a nameserver named no other broker."""
        self._has_answer = False
        self._news: deque[Entry] = deque()
        self._has_news = asyncio.Event()
        self._follower = AccessFollower(table, lambda: self._addresses, pool, is_introduced, self._take)

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {
            "access stores": self._look,
            "access of other stores": self._follower.run,
            "access news": self._keep,
        }

    @property
    def is_read(self) -> bool:
        """Whether the users of another broker were read since the start, or there is none."""
        return self._is_alone or self._table.is_complete

    def _take(self, news: list[Entry]) -> None:
        self._followed.note(news)
        self._news += news
        self._has_news.set()

    async def _look(self) -> None:
        while True:
            try:
                info = await self._names.cluster_info()
            except (LinkError, WireError):
                pass  # those known so far are followed meanwhile
            else:
                self._addresses = addresses_of_others(info, self._cluster, self._own_broker)
                self._is_alone = self._is_alone or not (self._has_answer or self._addresses)
                self._has_answer = True
            await asyncio.sleep(LOOK_SECONDS if self._has_answer else SOON_SECONDS)

    async def _keep(self) -> None:
        """Append the news to the own log, in order. What cannot be appended waits."""
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            while self._news:
                batch = list(self._news)[:ROLLED_AT_ONCE]
                try:
                    await self._log.keep(batch)
                except RefusedRequest as refusal:
                    _log.warning("users of another store are not stored yet", reason=refusal.remark)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                for _ in batch:
                    self._news.popleft()


def addresses_of_others(info: ClusterInfo, cluster: str, own_broker: str) -> list[str]:
    """Return the addresses of all stores of the other brokers of a cluster, replicas included: any of them may lead."""
    names = {*info.cluster_addr_table.get(cluster, ())} - {own_broker}
    brokers = [info.broker_addr_table[name] for name in names if name in info.broker_addr_table]
    return sorted({address for broker in brokers for address in broker.broker_addrs.values()})
