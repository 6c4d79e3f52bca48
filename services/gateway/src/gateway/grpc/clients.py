"""The clients of this process by their ids: what they said about themselves, and their Telemetry streams.

A client is alive while its calls come. Identity distinguishes its streams: a client may open the next one before the last has ended.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from gateway.grpc.codes import Refused
from gateway.grpc.proto.enums import ClientType, Code
from gateway.grpc.proto.telemetry import TelemetryCommand

EXPIRY_SECONDS: Final = 120.0
"""A client without a call for so long has left (the value of RocketMQ's proxy)."""
ALONE_SECONDS_MAX: Final = 30.0
"""A client without a Telemetry stream that has been silent for so long is not alive: official ones send a heartbeat every 10 s."""
CLIENTS_MAX: Final = 100_000
TOPICS_MAX: Final = 1000
"""Topics of one client. A producer is not asked about the transactions of further ones."""


class ClientStream(Protocol):
    """A live Telemetry stream."""

    def push(self, command: TelemetryCommand) -> bool:
        """Have a command written; False if the client does not take what it has got already."""
        ...


class Client:
    """A client. Only `Clients` changes it."""

    __slots__ = (
        "group", "has_left", "id", "kind", "language", "last_seen", "streams", "topics", "user"
    )  # fmt: skip

    def __init__(self, client_id: str, language: str, user: str, now: float) -> None:
        self.id, self.language = client_id, language
        self.user = user
        """The user that its calls prove. No other one gets what is pushed to it. Empty without access control."""
        self.kind = int(ClientType.CLIENT_TYPE_UNSPECIFIED)
        self.group = ""
        """Of a consumer, with its namespace."""
        self.topics: set[str] = set()
        """Those of a producer's settings and transactions, or of a consumer's subscriptions, with their namespaces."""
        self.last_seen = now
        """Steady seconds."""
        self.streams: list[ClientStream] = []
        """The oldest first."""
        self.has_left = False
        """It was reported as silent, and its stream is open."""


class Clients:
    """All clients that have called and not left."""

    def __init__(self, now: Callable[[], float], *, clients_max: int = CLIENTS_MAX) -> None:
        """`now` is the steady clock in seconds."""
        self._now, self._clients_max = now, clients_max
        self._clients: dict[str, Client] = {}
        self._by_topic: dict[str, dict[str, Client]] = {}
        """Producers by the topics that they are bound to."""
        self._on_left: list[Callable[[str], None]] = []

    def __len__(self) -> int:
        return len(self._clients)

    def get(self, client_id: str) -> Client | None:
        """Return a client; None if it is unknown, or has left."""
        return self._clients.get(client_id)

    def is_connected(self, client_id: str) -> bool:
        """Whether a client has a live Telemetry stream. One that has none may be alive nevertheless: see `is_alive`."""
        client = self._clients.get(client_id)
        return client is not None and bool(client.streams)

    def is_alive(self, client_id: str) -> bool:
        """Whether a client has called lately, and not left. After a restart of the gateway, clients call for minutes before they open a stream."""
        client = self._clients.get(client_id)
        if client is None or self._is_silent(client):
            return False
        return bool(client.streams) or self._now() - client.last_seen <= ALONE_SECONDS_MAX

    def producers_of(self, topic: str) -> list[Client]:
        """Return the connected producers that are bound to a topic."""
        return [client for client in self._by_topic.get(topic, {}).values() if self._can_answer(client)]

    def topics_of_producers(self) -> list[str]:
        """Return the topics that have connected producers."""
        return [
            topic for topic, clients in self._by_topic.items() if any(map(self._can_answer, clients.values()))
        ]

    def on_left(self, callback: Callable[[str], None]) -> None:
        """Call back with the id of each client that has said that it leaves, or been silent for too long."""
        self._on_left.append(callback)

    # What clients say

    def seen(self, client_id: str, language: str, user: str) -> Client:
        """Note that a client of a user calls. Raises Refused for another user's client, and while there are too many clients."""
        client = self._clients.get(client_id)
        if client is None:
            if len(self._clients) >= self._clients_max:
                self.sweep()
            if len(self._clients) >= self._clients_max:
                raise Refused(Code.TOO_MANY_REQUESTS, f"there are {self._clients_max} clients here")
            client = self._clients[client_id] = Client(client_id, language, user, self._now())
        if user and client.user not in ("", user):
            raise Refused(Code.FORBIDDEN, "another user has a client of this id")
        client.user = client.user or user
        client.last_seen = self._now()
        client.has_left = False
        return client

    def describe(self, client: Client, kind: int, group: str, topics: set[str] | None) -> None:
        """Note what a client says about itself; None as topics: nothing about them. A producer stays bound to the topics of its transactions."""
        client.kind = kind or client.kind
        client.group = group or client.group
        if topics is None:
            return
        if client.kind == ClientType.PRODUCER:
            for topic in topics:
                self._bind(client, topic)
        else:
            self._unbind(client)
            client.topics = topics

    def bind_topic(self, client_id: str, topic: str) -> None:
        """Note that a client sends transactions to a topic: it can be asked about those of others, too."""
        client = self._clients.get(client_id)
        if client is not None:
            self._bind(client, topic)

    def opened(self, client: Client, stream: ClientStream) -> None:
        """Note a Telemetry stream; noting one again changes nothing."""
        if stream not in client.streams:
            client.streams.append(stream)

    def closed(self, client_id: str, stream: ClientStream) -> None:
        """Forget this Telemetry stream, and no other one of the client."""
        client = self._clients.get(client_id)
        if client is not None:
            with suppress(ValueError):
                client.streams.remove(stream)

    def push(self, client_id: str, command: TelemetryCommand) -> bool:
        """Write a command to a client's newest stream. False if it has none, or does not take what it has got already."""
        client = self._clients.get(client_id)
        return client is not None and bool(client.streams) and client.streams[-1].push(command)

    def leave(self, client_id: str) -> None:
        """Forget a client that says that it leaves."""
        client = self._clients.pop(client_id, None)
        if client is None:
            return
        self._unbind(client)
        self._report(client)

    def sweep(self) -> None:
        """Report the clients that have been silent for too long, and forget those without a stream."""
        for client in [client for client in self._clients.values() if self._is_silent(client)]:
            if not client.streams:
                self.leave(client.id)
            elif not client.has_left:
                self._report(client)

    def _report(self, client: Client) -> None:
        is_known, client.has_left = client.has_left, True
        for callback in () if is_known else self._on_left:
            callback(client.id)

    def _can_answer(self, client: Client) -> bool:
        return bool(client.streams) and not self._is_silent(client)

    def _is_silent(self, client: Client) -> bool:
        return self._now() - client.last_seen > EXPIRY_SECONDS

    def _bind(self, client: Client, topic: str) -> None:
        if len(client.topics) < TOPICS_MAX or topic in client.topics:
            client.topics.add(topic)
            self._by_topic.setdefault(topic, {})[client.id] = client

    def _unbind(self, client: Client) -> None:
        for topic in client.topics:
            bound = self._by_topic.get(topic)
            if bound is not None and bound.get(client.id) is client:
                del bound[client.id]
                if not bound:
                    del self._by_topic[topic]
