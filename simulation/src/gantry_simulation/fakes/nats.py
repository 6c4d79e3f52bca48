"""A NATS server as hints use it: subjects with wildcards, queue groups, a token, pings. No headers, accounts or clusters.

Facts: the client protocol of docs.nats.io, and the answers of nats-server 2.15, to which a contract test compares this.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, cast

import msgspec

from gantry_simulation.fakes.nats_subjects import NatsSubscription, is_valid, subscribed
from gantry_simulation.fakes.not_faked import NotFaked

VERSION = "2.15.1"
LINE_BYTES_MAX = 4096
PAYLOAD_BYTES_MAX = 1024 * 1024
FIRST_PING_SECONDS = 2.0
PING_SECONDS = 120.0
PINGS_UNANSWERED_MAX = 2
CONNECT_SECONDS_MAX = 2.0
"""A client that must show a token is cut off when it has not done so by then."""
END = b"\r\n"


class Connect(msgspec.Struct):
    """The fields of CONNECT that change what the server does."""

    verbose: bool = False
    pedantic: bool = False
    echo: bool = True
    protocol: int = 0
    auth_token: str = ""


class NatsServer:
    """What all connections share. Make `connection` the protocol factory of a listener."""

    def __init__(self, rng: random.Random, token: str = "") -> None:
        """Clients must show `token` if there is one. `rng` chooses within queue groups."""
        self.token = token
        self.rng = rng
        self.connections: dict[int, NatsConnection] = {}
        """Those that have connected, by id."""
        self._last_id = 0

    def connection(self) -> NatsConnection:
        """Return the protocol of a new connection."""
        self._last_id += 1
        return NatsConnection(self, self._last_id)

    def publish(self, source: NatsConnection, subject: str, reply: str, payload: bytes) -> None:
        """Deliver a message to each subscription, and to one of each queue group."""
        open_ones = [one for one in self.connections.values() if one is not source or one.connect.echo]
        candidates = [(one, sub) for one in open_ones for sub in one.subscriptions.values()]
        for connection, subscription in subscribed(candidates, subject, self.rng):
            connection.deliver(subscription, subject, reply, payload)


class NatsConnection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: NatsServer, number: int) -> None:
        self.connect = Connect()
        self.subscriptions: dict[str, NatsSubscription] = {}
        """By the client's id."""
        self._server, self._number = server, number
        self._buffer = bytearray()
        self._payload: tuple[str, str, int] | None = None
        """Subject, reply subject and size of the message whose payload is being read."""
        self._has_connected = self._has_pinged = False
        self._pings_unanswered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._operations: dict[str, Callable[[str], None]] = {
            "CONNECT": self._connect, "PING": self._ping, "PONG": self._pong, "SUB": self._subscribe, "UNSUB": self._unsubscribe,
            "PUB": self._publish,
        }  # fmt: skip

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who serves."""
        self._transport = cast("asyncio.Transport", transport)
        self._write(self._info())
        if self._server.token:
            self._call_later(CONNECT_SECONDS_MAX, self._connect_is_late)
        else:
            self._begin()

    def data_received(self, data: bytes) -> None:
        """Carry out whole lines and payloads."""
        self._buffer += data
        while not self._transport.is_closing() and (
            self._take_payload() if self._payload else self._take_line()
        ):
            pass

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        del exc
        self._server.connections.pop(self._number, None)
        if self._timer is not None:
            self._timer.cancel()

    # Reading

    def _take_line(self) -> bool:
        end = self._buffer.find(END)
        if max(end, 0) > LINE_BYTES_MAX or (end < 0 and len(self._buffer) > LINE_BYTES_MAX):
            self._refuse("maximum control line exceeded", closes=True)
            return False
        if end < 0:
            return False
        line = self._buffer[:end].decode()
        del self._buffer[: end + len(END)]
        name, _, rest = line.partition(" ")
        self._operate(name.upper(), rest.strip())
        return True

    def _operate(self, name: str, rest: str) -> None:
        if self._server.token and not self._has_connected and name != "CONNECT":
            self._refuse("Authorization Violation", closes=True)
        elif name in ("HPUB", "INFO", "+OK", "-ERR"):
            raise NotFaked(f"the fake NATS has no {name}")
        elif name in self._operations:
            self._operations[name](rest)
        else:
            self._refuse("Unknown Protocol Operation", closes=True)

    def _take_payload(self) -> bool:
        assert self._payload is not None
        subject, reply, size = self._payload
        if len(self._buffer) < size + len(END):
            return False
        payload = bytes(self._buffer[:size])
        del self._buffer[: size + len(END)]
        self._payload = None
        self._server.publish(self, subject, reply, payload)
        self._ok()
        return True

    # Operations

    def _connect(self, rest: str) -> None:
        self.connect = msgspec.json.decode(rest or "{}", type=Connect)
        if self._server.token and self.connect.auth_token != self._server.token:
            self._refuse("Authorization Violation", closes=True)
            return
        self._has_connected = True
        if self._server.token:
            self._begin()
        self._ok()

    def _ping(self, _rest: str) -> None:
        self._write(b"PONG\r\n")
        if not self._has_pinged:
            self._has_pinged = True
            if self._has_connected and self.connect.protocol:
                self._write(self._info(connect_info=True, remote_account="$G"))

    def _pong(self, _rest: str) -> None:
        self._pings_unanswered = 0

    def _subscribe(self, rest: str) -> None:
        subject, *group, number = rest.split()
        if not is_valid(subject, wildcards=True):
            self._refuse("Invalid Subject")
            return
        self.subscriptions.setdefault(number, NatsSubscription(number, subject, group[0] if group else ""))
        self._ok()

    def _unsubscribe(self, rest: str) -> None:
        number, *most = rest.split()
        subscription = self.subscriptions.get(number)
        if subscription is not None:
            subscription.most = int(most[0]) if most else 0
            if subscription.delivered >= subscription.most:
                del self.subscriptions[number]
        self._ok()

    def _publish(self, rest: str) -> None:
        subject, *reply, size = rest.split()
        if int(size) > PAYLOAD_BYTES_MAX:
            self._refuse("Maximum Payload Violation", closes=True)
            return
        if self.connect.pedantic and not is_valid(subject, wildcards=False):
            self._refuse("Invalid Publish Subject")
        self._payload = subject, reply[0] if reply else "", int(size)

    # Writing

    def deliver(self, subscription: NatsSubscription, subject: str, reply: str, payload: bytes) -> None:
        """Send a message of a subscription, which ends with its last one."""
        words = [subject, subscription.number, *([reply] if reply else []), str(len(payload))]
        self._write(f"MSG {' '.join(words)}\r\n".encode() + payload + END)
        subscription.delivered += 1
        if subscription.most and subscription.delivered >= subscription.most:
            del self.subscriptions[subscription.number]

    def _info(self, **more: Any) -> bytes:
        socket_name, peer = (
            self._transport.get_extra_info("sockname"),
            self._transport.get_extra_info("peername"),
        )
        fields = {
            "server_id": "FAKE", "server_name": "FAKE", "version": VERSION, "proto": 1, "host": socket_name[0], "port": socket_name[1],
            "headers": True, "auth_required": True, "max_payload": PAYLOAD_BYTES_MAX, "client_id": self._number, "client_ip": peer[0],
        }  # fmt: skip
        if not self._server.token:
            del fields["auth_required"]
        return b"INFO " + msgspec.json.encode(fields | more) + b" \r\n"

    def _ok(self) -> None:
        if self.connect.verbose:
            self._write(b"+OK\r\n")

    def _refuse(self, why: str, *, closes: bool = False) -> None:
        self._write(f"-ERR '{why}'\r\n".encode())
        if closes:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        self._transport.write(data)

    # Timers

    def _begin(self) -> None:
        self._server.connections[self._number] = self
        self._call_later(FIRST_PING_SECONDS, self._ask)

    def _ask(self) -> None:
        if self._pings_unanswered >= PINGS_UNANSWERED_MAX:
            self._refuse("Stale Connection", closes=True)
            return
        self._pings_unanswered += 1
        self._write(b"PING\r\n")
        self._call_later(PING_SECONDS, self._ask)

    def _connect_is_late(self) -> None:
        self._refuse("Authentication Timeout", closes=True)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, call)
