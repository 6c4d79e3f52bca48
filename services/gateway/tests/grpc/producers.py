"""The parts of the gRPC side that producers use, over in-memory stores."""

from __future__ import annotations

import asyncio

from gateway_grpc_peers import caller

from gantry_wire.messages.ids import UniqueIds
from gateway.grpc.clients import Clients
from gateway.grpc.producing.orphans import Orphans
from gateway.grpc.producing.send import Recalls, Sends
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import Encoding
from gateway.grpc.proto.message import Message, SystemProperties
from gateway.grpc.proto.sending import SendMessageRequest
from gateway.routing.brokers import KnownBrokers
from gateway.routing.claim_holders import ClaimHolders
from gateway.routing.fleet import Fleet
from gateway.routing.leaders import Leaders
from gateway.routing.route_cache import RouteCache
from gateway.routing.topic_types import TopicTypes
from gateway.schedules.schedules import Schedules
from gateway.send.drafts import Drafting
from gateway.send.leader_waits import LeaderWaits
from gateway.send.sending import Sender
from gateway.transactions.transactions import Transactions

HORIZON_MS = 40 * 86_400_000


class Producers:
    """The parts of a gateway that producers use."""

    def __init__(self, system, limits=None, ensure_topic=None) -> None:
        known, clocks = KnownBrokers(600.0), system.clocks
        self.routes = RouteCache(system, known, Leaders(system, system.leave), clocks.monotonic)
        waits = LeaderWaits(self.routes, clocks.monotonic, 1.0)
        self.sender = Sender(self.routes, system, known, clocks, waits, 60_000)
        self.types = TopicTypes(self.routes, system)
        self.bound: list[tuple[str, str]] = []
        self.sends = Sends(
            self.sender, self.types, lambda *one: self.bound.append(one), limits, ensure_topic,
            clocks.wall_ms, HORIZON_MS,
        )  # fmt: skip
        self.clients = Clients(clocks.monotonic)
        fleet = Fleet(system, system, known, clocks.monotonic)
        holders = ClaimHolders(fleet, system.schedulers.holder, clocks.monotonic, "scheduler", 0.5)
        checkers = ClaimHolders(fleet, system.transactions.holder, clocks.monotonic, "txn-checker", 0.5)
        drafting = Drafting(UniqueIds(bytes((127, 0, 0, 1)), 1, 7), clocks.wall_ms, HORIZON_MS)
        self.transactions = Transactions(self.sender, drafting, checkers, system.transactions)
        self.orphans = Orphans(self.transactions, self.clients, self.types.known)
        self.recalls = Recalls(Schedules(holders, system.schedulers), self.types, clocks.wall_ms)

    async def send(self, *messages: Message):
        return await self.sends.send(caller(), SendMessageRequest(messages=messages))

    async def send_fast(self, message: Message):
        """Send on the path without a task, once everything it needs is cached."""
        await self.types.get("orders")
        await self.routes.queue_list("orders")
        answer = self.sends.send(caller(), SendMessageRequest(messages=[message]))
        assert isinstance(answer, asyncio.Future)
        assert not isinstance(answer, asyncio.Task)
        return await answer


def plain(topic="orders", message_id="01AB", **system) -> Message:
    fields = {"message_id": message_id, "body_encoding": Encoding.IDENTITY} | system
    return Message(topic=Resource(name=topic), system_properties=SystemProperties(**fields), body=b"hi")
