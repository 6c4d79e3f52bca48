"""Who leads a broker with replicas: moves the lead."""

from typing import Annotated

from msgspec import Meta

from gateway.admin.broker_settings_routes import BrokerName
from gateway.admin.lead_moves import LeadMover
from gateway.admin.schemas import LeadMoves
from gateway.requests.fields import REPLICA_PATTERN
from gateway.requests.operations import Operation, Operations

ReplicaName = Annotated[
    str,
    Meta(
        pattern=REPLICA_PATTERN,
        description="Name of the replica that shall lead; empty: the best one that is in sync.",
    ),
]


def lead_routes(mover: LeadMover) -> list[Operation]:
    """Return the routes."""
    calls = Operations("cluster")

    @calls.post("/v1/brokers/{broker:id}:moveLeader", 400, 404, 409)
    async def move_leader(broker: BrokerName, to: ReplicaName = "") -> LeadMoves:
        """Let another replica of a broker lead. Answered when the leader agrees; the next one leads some moments later."""
        return await mover.move(broker, to)

    return calls.all
