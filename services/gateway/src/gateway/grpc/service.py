"""MessagingService as a whole: the one module that knows all its parts."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from gantry_chassis.metrics import Metrics
from gantry_link.grpc.calls import Methods, Streaming, Unary, joined
from gantry_link.grpc.health import Health
from gantry_link.grpc.reflection import Reflection
from gateway.admin.groups import GroupAdmin
from gateway.grpc.access import GrpcAccess
from gateway.grpc.calls import Calls
from gateway.grpc.clients import Clients
from gateway.grpc.consuming.acks import Acks
from gateway.grpc.consuming.lite import sync_lite_subscription
from gateway.grpc.consuming.pulls import Pulls
from gateway.grpc.consuming.receive import Receives, end_of_receive
from gateway.grpc.consuming.renewals import Renewals
from gateway.grpc.messages import leased, pulled
from gateway.grpc.producing.orphans import Orphans
from gateway.grpc.producing.send import Recalls, Sends
from gateway.grpc.producing.transactions import EndsTransactions
from gateway.grpc.proto import METHODS, SERVICE, file_descriptors
from gateway.grpc.proto.enums import ClientType
from gateway.grpc.routing.endpoints import OwnEndpoints
from gateway.grpc.routing.routes import ClientLife, RouteAnswers
from gateway.grpc.telemetry.group_settings import KnownGroups
from gateway.grpc.telemetry.telemetry import Commands, Telemetry
from gateway.http.metrics import CallCounts
from gateway.ports.leases import LeaseStores
from gateway.ports.stores import Clocks, RateLimits, Stores
from gateway.pull.pulling import Puller
from gateway.receive.acking import Acker
from gateway.receive.receiving import Receiver
from gateway.routing.brokers import KnownBrokers
from gateway.routing.fleet import Fleet
from gateway.routing.route_cache import RouteCache
from gateway.routing.topic_types import TopicTypes
from gateway.schedules.schedules import Schedules
from gateway.send.routes import EnsureTopic
from gateway.send.sending import Sender
from gateway.transactions.transactions import Transactions

T = TypeVar("T")
_PUSH_CONSUMERS: Final = frozenset({int(ClientType.PUSH_CONSUMER), int(ClientType.LITE_PUSH_CONSUMER)})


class Shared(NamedTuple):
    """What the gateway has for every protocol."""

    routes: RouteCache
    known: KnownBrokers
    fleet: Fleet
    groups: GroupAdmin
    stores: Stores
    leases: LeaseStores
    sender: Sender
    acker: Acker
    transactions: Transactions
    schedules: Schedules
    limits: RateLimits | None
    clocks: Clocks
    ensure_topic: EnsureTopic | None
    delay_horizon_ms: int


class GrpcService:
    """The calls of the gRPC port, and the clients that make them."""

    def __init__(
        self,
        shared: Shared,
        access: GrpcAccess,
        endpoints: OwnEndpoints,
        metrics: Metrics,
        is_ready: Callable[[], bool],
    ) -> None:
        """`is_ready`: whether calls can be decided; the port's health says so."""
        clocks = shared.clocks
        self.clients = Clients(clocks.monotonic)
        self.commands = Commands(self.clients)
        """Questions to clients."""
        self.endpoints = endpoints
        self._health, self._is_ready = Health([SERVICE]), is_ready
        self._types = TopicTypes(shared.routes, shared.stores)
        self.orphans = Orphans(shared.transactions, self.clients, self._types.known)
        """Asks producers about transactions: run it."""
        self._receiver = Receiver(shared.routes, shared.leases, leased.shown, clocks.monotonic)
        self._puller = Puller(shared.routes, shared.stores, shared.known, pulled.pulled, clocks.monotonic)
        self._renewals = Renewals(shared.acker, self.clients.is_alive, clocks.monotonic)
        self.clients.on_left(self._renewals.leave)
        counts = CallCounts(metrics, clocks.monotonic, "gateway_grpc_call", "gRPC", ("method", "code"))
        self._calls = Calls(access.admit, lambda: access.moment, self.clients, shared.limits, counts)
        self._sends = self._made_sends(shared)
        self._receives = Receives(self._receiver, self._renewals, shared.limits, clocks)
        self._acks = Acks(shared.acker, self._renewals, shared.limits, self._is_push)
        self._pulls = Pulls(self._puller, shared.routes, shared.stores, shared.groups, shared.limits)
        groups = KnownGroups(shared.fleet, clocks.monotonic)
        self._telemetry = Telemetry(self._calls, access.admit, self.clients, groups, self.commands)
        unary = self._unary(shared, access)
        streaming: dict[str, Streaming] = {
            "Telemetry": self._telemetry.serve,
            "ReceiveMessage": self._calls.streaming(
                "ReceiveMessage", self._receives.receive, lambda: [end_of_receive(clocks.wall_ms())]
            ),
            "PullMessage": self._calls.streaming("PullMessage", self._pulls.pull, list),
        }
        assert unary.keys() | streaming.keys() == METHODS.keys(), "every method is served"
        self.methods = joined(
            Methods(_by_path(unary), _by_path(streaming)),
            self._health.methods,
            Reflection(file_descriptors(), [SERVICE]).methods,
        )
        self._show(metrics)

    def sweep(self) -> None:
        """Forget clients that are silent, and say whether the port is ready."""
        self.clients.sweep()
        self._health.set_serving(self._is_ready())

    def drain(self) -> None:
        """Answer held receives now, and say that the port is not ready."""
        self._health.set_serving(False)
        for one in (self._receiver, self._puller, self.orphans):
            one.drain()

    def close(self) -> None:
        """Extend no leases any more."""
        self._renewals.close()

    def _made_sends(self, shared: Shared) -> Sends:
        return Sends(
            shared.sender,
            self._types,
            self.clients.bind_topic,
            shared.limits,
            shared.ensure_topic,
            shared.clocks.wall_ms,
            shared.delay_horizon_ms,
        )

    def _unary(self, shared: Shared, access: GrpcAccess) -> dict[str, Unary]:
        routes = RouteAnswers(shared.routes, self._types, self.endpoints, shared.ensure_topic)
        life = ClientLife(self.clients)
        recalls = Recalls(shared.schedules, self._types, shared.clocks.wall_ms)
        ends = EndsTransactions(shared.transactions, checks_topics=access.has_users)
        handlers = {
            "QueryRoute": routes.route,
            "QueryAssignment": routes.assignment,
            "Heartbeat": life.heartbeat,
            "NotifyClientTermination": life.terminate,
            "RecallMessage": recalls.recall,
            "EndTransaction": ends.end,
            "SyncLiteSubscription": sync_lite_subscription,
        }
        with_own_tokens = {
            "SendMessage": self._sends.send,
            "AckMessage": self._acks.ack,
            "ChangeInvisibleDuration": self._acks.change_invisible,
            "ForwardMessageToDeadLetterQueue": self._acks.forward_to_dlq,
            "UpdateOffset": self._pulls.update_offset,
            "GetOffset": self._pulls.get_offset,
            "QueryOffset": self._pulls.query_offset,
        }
        return {method: self._calls.unary(method, handler) for method, handler in handlers.items()} | {
            method: self._calls.unary(method, handler, takes_token=False)
            for method, handler in with_own_tokens.items()
        }

    def _is_push(self, client_id: str) -> bool:
        client = self.clients.get(client_id)
        return client is not None and client.kind in _PUSH_CONSUMERS

    def _show(self, metrics: Metrics) -> None:
        metrics.gauge("gateway_grpc_clients", "gRPC clients that live.", lambda: len(self.clients))
        metrics.counted(
            "gateway_grpc_messages_sent", "Messages acknowledged over gRPC.", lambda: self._sends.messages
        )
        metrics.counted(
            "gateway_grpc_messages_received", "Messages given out over gRPC.", lambda: self._receives.messages
        )
        metrics.counted(
            "gateway_grpc_handles_settled", "Receipt handles answered over gRPC.", lambda: self._acks.messages
        )
        metrics.gauge(
            "gateway_grpc_receives_held",
            "gRPC receives that wait for a message.",
            lambda: self._receiver.waiting,
        )
        metrics.gauge(
            "gateway_grpc_leases_extended",
            "Messages whose leases are extended.",
            lambda: self._renewals.count,
        )
        metrics.counted(
            "gateway_grpc_messages_pulled", "Messages returned to gRPC pulls.", lambda: self._pulls.messages
        )
        metrics.counted(
            "gateway_grpc_checks_pushed",
            "Checks of transactions passed to gRPC producers.",
            lambda: self.orphans.pushed,
        )


def _by_path(methods: dict[str, T]) -> dict[str, T]:
    return {f"/{SERVICE}/{name}": method for name, method in methods.items()}
