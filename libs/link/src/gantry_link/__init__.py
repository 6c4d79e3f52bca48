"""Remoting server and client connections on asyncio, and typed clients of nameserver and store."""

from gantry_link.connection import Connection, connect
from gantry_link.errors import (
    BrokerRefused,
    ConnectionBusy,
    ConnectionLost,
    LinkError,
    NotConnected,
    RequestTimedOut,
)
from gantry_link.limits import LinkLimits
from gantry_link.nameserver_client import NameserverClient
from gantry_link.peer import Peer
from gantry_link.pool import ConnectionPool
from gantry_link.server import RemotingServer
from gantry_link.store_client import StoreClient
from gantry_link.turn import Turn

__all__ = [
    "BrokerRefused",
    "Connection",
    "ConnectionBusy",
    "ConnectionLost",
    "ConnectionPool",
    "LinkError",
    "LinkLimits",
    "NameserverClient",
    "NotConnected",
    "Peer",
    "RemotingServer",
    "RequestTimedOut",
    "StoreClient",
    "Turn",
    "connect",
]
