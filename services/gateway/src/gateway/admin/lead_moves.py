"""Moves the lead of a broker with replicas. The leader decides whether it can; the next one campaigns at once."""

from gateway.admin.cluster import ClusterView
from gateway.admin.schemas import LeadMoves
from gateway.http.problems import Problem, away
from gateway.ports.replicas import Replicas
from gateway.ports.stores import PeerAway
from gateway.routing.fleet import Fleet

SEE = "GET /v1/cluster shows who leads"


class LeadMover:
    """Asks leaders to hand over."""

    def __init__(self, fleet: Fleet, view: ClusterView, replicas: Replicas) -> None:
        self._fleet, self._view, self._replicas = fleet, view, replicas

    async def move(self, broker: str, to: str) -> LeadMoves:
        """Ask the leader of a broker; return when it agrees, before another replica leads.

        Raises Problem: 404 for an unknown broker, 409 where the lead cannot move, 503 while nobody leads or nobody answers.
        """
        await self._fleet.broker(broker)
        try:
            group = await self._view.group(broker)
        except PeerAway as error:
            raise away("no nameserver answers; try again") from error
        if not group.leader:
            if len(group.replicas) <= 1:
                raise Problem(409, "NO_REPLICAS", f"broker {broker} has no replicas", field="broker")
            raise away(f"no replica of {broker} says that it leads; try again")
        if to == group.leader:
            raise Problem(409, "LEADS_ALREADY", f"{to} leads {broker} already", field="to")
        try:
            refusal = await self._replicas.move_leader(group.address, to)
        except PeerAway as error:
            unknown = ", and may hand over" if error.sent else ""
            raise away(f"{group.leader}, which leads {broker}, does not answer{unknown}: {SEE}") from error
        if refusal:
            raise Problem(409, "LEAD_CANNOT_MOVE", refusal, field="to")
        return LeadMoves(broker=broker, leader=group.leader, epoch=group.epoch, to=to)
