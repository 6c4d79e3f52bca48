"""QueryRoute, QueryAssignment, Heartbeat and NotifyClientTermination: what clients need to begin, and how they stay known.

Every broker of a route is reached through this gateway, so all have its endpoints, and broker id 0: that of a leader.
"""

from typing import Final

from gateway.grpc.calls import Caller
from gateway.grpc.clients import Clients
from gateway.grpc.codes import Refused, status
from gateway.grpc.messages.accepted_types import shown_types
from gateway.grpc.messages.checked_names import group_of, topic_of
from gateway.grpc.names import full_name
from gateway.grpc.proto.common import Assignment, Broker, Endpoints, MessageQueue, Resource
from gateway.grpc.proto.enums import Code, Permission
from gateway.grpc.proto.routing import (
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from gateway.grpc.routing.endpoints import OwnEndpoints
from gateway.ports.stores import QueueData
from gateway.routing.route_cache import PERM_READ, PERM_WRITE, Route, RouteCache
from gateway.routing.topic_types import TopicTypes
from gateway.send.routes import EnsureTopic

ANY_QUEUE: Final = -1
"""The queue id of an assignment: every queue of its broker."""
LEADER_ID: Final = 0


class RouteAnswers:
    """Answers where a topic's queues are."""

    def __init__(
        self, routes: RouteCache, types: TopicTypes, endpoints: OwnEndpoints, ensure_topic: EnsureTopic | None
    ) -> None:
        """`ensure_topic` creates a topic that does not exist; None where topics are not created by their use."""
        self._routes, self._types = routes, types
        self._endpoints, self._ensure_topic = endpoints, ensure_topic

    async def route(self, caller: Caller, request: QueryRouteRequest) -> QueryRouteResponse:
        """Return every queue of a topic."""
        topic = topic_of(request.topic, caller.namespace)
        if self._ensure_topic is not None:
            await self._ensure_topic(topic)
        kind = await self._types.get(topic)
        route = await self._routes.get(topic)
        endpoints = self._endpoints.of(request.endpoints, caller.info)
        types = shown_types(kind, caller.language, caller.version)
        queues = [
            MessageQueue(
                topic=request.topic,
                id=queue_id,
                permission=permission,
                broker=broker,
                accept_message_types=types,
            )
            for share, broker in _brokers(route, endpoints)
            for queue_id, permission in _queues(share)
        ]
        return QueryRouteResponse(status=status(Code.OK), message_queues=queues)

    async def assignment(self, caller: Caller, request: QueryAssignmentRequest) -> QueryAssignmentResponse:
        """Return one assignment per broker, the same to every consumer: the store shares out messages, not queues."""
        topic = topic_of(request.topic, caller.namespace)
        group_of(request.group, caller.namespace)
        route = await self._routes.get(topic)
        endpoints = self._endpoints.of(request.endpoints, caller.info)
        readable = [one for one in _brokers(route, endpoints) if one[0].perm & PERM_READ]
        if not readable:
            raise Refused(Code.FORBIDDEN, f"topic {topic} has no readable queue")
        return QueryAssignmentResponse(
            status=status(Code.OK),
            assignments=[_assignment(request.topic, share, broker) for share, broker in readable],
        )


class ClientLife:
    """Notes that clients live, and leave."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def heartbeat(self, caller: Caller, request: HeartbeatRequest) -> HeartbeatResponse:
        """Note what a client is. One that has sent no settings is welcome: after a restart of the gateway, clients send none for minutes."""
        client = self._clients.get(caller.client_id)
        if client is not None:
            group = full_name(request.group, caller.namespace)
            self._clients.describe(client, request.client_type, group, None)
        return HeartbeatResponse(status=status(Code.OK))

    def terminate(
        self, caller: Caller, _request: NotifyClientTerminationRequest
    ) -> NotifyClientTerminationResponse:
        """Forget a client; one that is unknown has left as well."""
        self._clients.leave(caller.client_id)
        return NotifyClientTerminationResponse(status=status(Code.OK))


def _brokers(route: Route, endpoints: Endpoints) -> list[tuple[QueueData, Broker]]:
    return [
        (share, Broker(name=name, id=LEADER_ID, endpoints=endpoints))
        for name, share in sorted(route.shares().items())
    ]


def _queues(share: QueueData) -> list[tuple[int, Permission]]:
    """Return a broker's queues by number. Number 0 is readable and writable if the topic is: Node's client uses no other one."""
    reads = share.read_queues if share.perm & PERM_READ else 0
    writes = share.write_queues if share.perm & PERM_WRITE else 0
    if not reads and not writes:
        return [
            (queue_id, Permission.NONE) for queue_id in range(max(1, share.read_queues, share.write_queues))
        ]
    return [
        (queue_id, _permission(is_read=queue_id < reads, is_written=queue_id < writes))
        for queue_id in range(max(reads, writes))
    ]


def _permission(*, is_read: bool, is_written: bool) -> Permission:
    if is_read and is_written:
        return Permission.READ_WRITE
    return Permission.READ if is_read else Permission.WRITE


def _assignment(topic: Resource, share: QueueData, broker: Broker) -> Assignment:
    permission = Permission.READ_WRITE if share.perm & PERM_WRITE else Permission.READ
    return Assignment(
        message_queue=MessageQueue(topic=topic, id=ANY_QUEUE, permission=permission, broker=broker)
    )
