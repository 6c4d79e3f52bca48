"""Acts on changes: route hints over NATS, notices to brokers, connections to close."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.nats_hints import Hints
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_link.serving.peer import Peer
from gantry_link.serving.vouching import names_itself
from gantry_wire.codes import RequestCode
from nameserver.routes.tables import Change, MinIdChanged

ROUTE_SUBJECT = "gantry.route."
NOTICES_MAX = 1024
_NOT_IN_A_SUBJECT = frozenset(" .*>\t\r\n")

_log = get_logger()


class Outside:
    """Performs effects. Hints and notices may be lost; a slow poll backs up both."""

    def __init__(self, hints: Hints, pool: ConnectionPool, peers: Mapping[int, Peer]) -> None:
        """`peers`: the open connections of the server, by number."""
        self._peers = peers
        self._hints = hints
        self._pool = pool
        self._notices: asyncio.Queue[MinIdChanged] = asyncio.Queue(NOTICES_MAX)
        self.notices_lost = 0

    def act(self, change: Change) -> None:
        """Perform the effects of a change. Never waits, never raises."""
        for topic in sorted(change.topics):  # in one order, so that a simulated life repeats
            if topic and _NOT_IN_A_SUBJECT.isdisjoint(topic):
                self._hints.publish(ROUTE_SUBJECT + topic)
        for channel in change.lost_channels:
            peer = self._peers.get(channel)
            if peer is not None:
                peer.abort()
        for notice in change.notices:
            try:
                self._notices.put_nowait(notice)
            except asyncio.QueueFull:
                self.notices_lost += 1

    async def tell_brokers(self) -> None:
        """Send notices (905, one-way) to the brokers concerned, until cancelled.

        A broker is notified only at the host it registered from, so it cannot make the nameserver connect elsewhere.
        """
        while True:
            notice = await self._notices.get()
            for address, channel in notice.members:
                peer = self._peers.get(channel)
                if peer is None or not names_itself(address, peer.remote[0]):
                    self.notices_lost += 1
                    _log.info(
                        "broker not notified of a changed master: its address is not the host it registered from",
                        address=address,
                        registered_from=None if peer is None else peer.remote[0],
                    )
                    continue
                try:
                    connection = await self._pool.get(address)
                    connection.oneway(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, _fields(notice))
                except LinkError as error:
                    self.notices_lost += 1
                    _log.info("broker not notified of a changed master", address=address, reason=str(error))


def _fields(notice: MinIdChanged) -> dict[str, str]:
    fields = {
        "minBrokerId": str(notice.min_id),
        "brokerName": notice.broker_name,
        "minBrokerAddr": notice.min_address,
        "offlineBrokerAddr": notice.offline_address,
        "haBrokerAddr": notice.ha_address,
    }
    return {name: value for name, value in fields.items() if value is not None}
