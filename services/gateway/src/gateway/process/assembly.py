"""Assembles the gateway from its ports: real ones in the process, in-memory ones in tests."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gantry_chassis.http.web_pages import WebPages
from gantry_chassis.metrics import Metrics
from gantry_wire.messages.ids import UniqueIds
from gateway.admin.broker_settings_routes import broker_settings_routes
from gateway.admin.cluster import ClusterView
from gateway.admin.cluster_routes import cluster_routes
from gateway.admin.dead_letter_routes import dead_letter_routes
from gateway.admin.dead_letters import DeadLetters
from gateway.admin.group_routes import group_routes
from gateway.admin.groups import GroupAdmin
from gateway.admin.lead_moves import LeadMover
from gateway.admin.lead_routes import lead_routes
from gateway.admin.offset_reset import OffsetReset
from gateway.admin.report_routes import report_routes
from gateway.admin.reset_routes import reset_routes
from gateway.admin.topic_routes import topic_routes
from gateway.admin.topics import TopicAdmin, perm_bits
from gateway.connection.fast_path import FastAnswers, FastPath
from gateway.http.access import Access
from gateway.http.clocks import ReplyStamps
from gateway.http.metrics import CallMetrics
from gateway.http.problems import Problem
from gateway.messages.schemas import MessageOut
from gateway.ports.access_changes import AccessChanges
from gateway.ports.histories import Histories
from gateway.ports.leases import LeaseStores
from gateway.ports.replicas import Replicas
from gateway.ports.schedulers import Schedulers
from gateway.ports.stores import Clocks, Hints, Names, RateLimits, Stores, TopicSettings
from gateway.ports.transactions import TransactionParties
from gateway.process.app import GatewayApp, HotRoutes
from gateway.process.health_routes import health_routes
from gateway.process.workers import Workers
from gateway.pull.message_history import MessageHistory
from gateway.pull.pulling import Puller
from gateway.pull.queries import Queries
from gateway.pull.query_routes import message_routes
from gateway.pull.routes import PullRoute
from gateway.pull.routes import shown as pulled_shown
from gateway.receive.acking import Acker
from gateway.receive.received_view import shown
from gateway.receive.receiving import Receiver
from gateway.receive.routes import AckRoute, ExtendRoute, FastLeases, LeaseRoutes, ReceiveRoute
from gateway.requests.operations import Operation
from gateway.routing.brokers import KnownBrokers
from gateway.routing.claim_holders import ClaimHolders
from gateway.routing.fleet import Fleet
from gateway.routing.holders import Holders
from gateway.routing.leaders import Leaders
from gateway.routing.probe import Probe
from gateway.routing.route_cache import RouteCache
from gateway.schedules.bulk_routes import bulk_schedule_routes, parked_routes
from gateway.schedules.routes import schedule_routes
from gateway.schedules.schedules import Schedules
from gateway.schedules.task_routes import task_routes
from gateway.schedules.tasks import Tasks
from gateway.send.drafts import Drafting
from gateway.send.leader_waits import LeaderWaits
from gateway.send.routes import EnsureTopic, FastSends, SendRoute
from gateway.send.sending import Sender
from gateway.settings import GatewaySettings
from gateway.transactions.routes import transaction_routes
from gateway.transactions.transactions import Transactions
from gateway.users.explain_routes import explain_routes
from gateway.users.policy_routes import policy_routes
from gateway.users.reseal_route import reseal_routes
from gateway.users.switch import Switch
from gateway.users.token_routes import token_routes
from gateway.users.user_routes import user_routes

if TYPE_CHECKING:
    from gantry_guard.guard import Guard
    from gantry_guard.http_callers import JwtCheck
    from gateway.grpc.service import GrpcService
    from gateway.users.accounts import Accounts


class Ports(NamedTuple):
    """The environment of the gateway."""

    names: Names
    stores: Stores
    hints: Hints
    limits: RateLimits | None
    clocks: Clocks
    ids: UniqueIds
    stamps: ReplyStamps
    schedulers: Schedulers
    leases: LeaseStores
    transactions: TransactionParties
    histories: Histories
    replicas: Replicas


class AccessParts(NamedTuple):
    """Access control, where it is on."""

    guard: "Guard"
    changes: AccessChanges
    jwt: "JwtCheck | None"
    secret_bytes: Callable[[int], bytes]
    """Returns this many unpredictable bytes."""


class Gateway(NamedTuple):
    """The parts of the gateway that the process uses."""

    app: GatewayApp
    routes: RouteCache
    puller: Puller[MessageOut]
    drain: Callable[[], None]
    workers: Workers
    known: KnownBrokers
    fleet: Fleet
    fast_path: FastPath | None
    """The fast path, for servers with connections."""
    grpc: "GrpcService | None"
    """The gRPC side; None if it is off."""


class _Core(NamedTuple):
    """What HTTP and gRPC share."""

    routes: RouteCache
    known: KnownBrokers
    fleet: Fleet
    groups: GroupAdmin
    sender: Sender
    transactions: Transactions
    schedules: Schedules
    ensure_topic: EnsureTopic | None


def assemble(
    settings: GatewaySettings,
    ports: Ports,
    *,
    fast_paths: bool,
    access_parts: AccessParts | None,
    metrics: Metrics,
) -> Gateway:
    """Return the gateway over these ports. Without `fast_paths`, every request is parsed and runs in its own task.

    Without `access_parts`, access control is off. Raises StartRefused if it is on and a route has no row of rights.
    """
    assert settings.is_guarded == (access_parts is not None), "what the settings switch on is given"
    names, stores, clocks = ports.names, ports.stores, ports.clocks
    known = KnownBrokers(settings.known_broker_seconds)
    routes = RouteCache(names, known, Leaders(names, stores.leave), clocks.monotonic, settings.worker)
    fleet = Fleet(names, stores, known, clocks.monotonic)
    topics = _topics(settings, ports, fleet, routes)
    groups = GroupAdmin(fleet, routes, stores, clocks.wall_ms)
    puller = Puller(routes, stores, known, pulled_shown, clocks.monotonic)
    leader_waits = LeaderWaits(routes, clocks.monotonic, settings.leader_wait_seconds)
    window_ms = settings.idempotency_window_seconds * 1000
    sender = Sender(routes, stores, known, clocks, leader_waits, window_ms)
    ensure_topic = _topic_maker(routes, topics, settings)
    drafting = Drafting(ports.ids, clocks.wall_ms, settings.delay_horizon_seconds * 1000)
    send = SendRoute(sender, drafting, ports.limits, ensure_topic)
    access = _access(settings, access_parts)
    pull = PullRoute(puller, ports.limits, access)
    receiver = Receiver(routes, ports.leases, shown, clocks.monotonic)
    leases = _lease_routes(ports, routes, receiver, access)
    call_metrics = _call_metrics(metrics, clocks.monotonic, send, pull, puller, leases, receiver)
    workers = _workers(settings, metrics, access_parts)
    claim_holders = _schedulers(settings, ports, fleet)
    schedules = Schedules(claim_holders, ports.schedulers)
    transactions = Transactions(sender, drafting, _checkers(settings, ports, fleet), ports.transactions)
    operations = [
        *topic_routes(topics),
        *group_routes(groups),
        *report_routes(settings.reports_dir),
        *reset_routes(OffsetReset(groups, routes, stores, Holders(fleet, routes))),
        *_message_routes(ports, fleet, routes, known),
        *_cluster_routes(ports, fleet, known, topics, groups),
        *_health_routes(ports, fleet, workers, puller, access_parts),
        *_scheduler_routes(settings, ports, schedules, claim_holders, fleet, groups, routes),
        *transaction_routes(transactions, clocks.wall_ms, ports.limits, ensure_topic, access),
        *_user_routes(settings, access_parts, fleet),
    ]
    app = _app(settings, ports, operations, HotRoutes(send, pull, leases), access, call_metrics)
    answers = FastAnswers(access, call_metrics, ports.stamps, app.finish, settings.gzip_bytes_min, app.large)
    fast_path = _fast_path(app, answers, ports.stamps, send, leases) if fast_paths else None
    drain = partial(_drain, puller, receiver, transactions)
    core = _Core(routes, known, fleet, groups, sender, transactions, schedules, ensure_topic)
    grpc = _grpc(settings, ports, core, access_parts, metrics)
    return Gateway(app, routes, puller, drain, workers, known, fleet, fast_path, grpc)


def _app(
    settings: GatewaySettings,
    ports: Ports,
    operations: list[Operation],
    hot: HotRoutes,
    access: Access,
    call_metrics: CallMetrics,
) -> GatewayApp:
    return GatewayApp(
        operations=operations,
        hot=hot,
        access=access,
        call_metrics=call_metrics,
        limits=ports.limits,
        stamps=ports.stamps,
        gzip_bytes_min=settings.gzip_bytes_min,
    )


def _grpc(
    settings: GatewaySettings, ports: Ports, core: _Core, parts: AccessParts | None, metrics: Metrics
) -> "GrpcService | None":
    """Return the gRPC side; None if it is off."""
    if settings.grpc_port < 0:
        return None
    # Protobuf takes 10 MB and 40 ms: it is loaded only if gRPC is on.
    from gateway.grpc.access import GrpcAccess
    from gateway.grpc.routing.endpoints import OwnEndpoints
    from gateway.grpc.service import GrpcService, Shared

    shared = Shared(
        core.routes,
        core.known,
        core.fleet,
        core.groups,
        ports.stores,
        ports.leases,
        core.sender,
        Acker(core.routes, ports.leases),
        core.transactions,
        core.schedules,
        ports.limits,
        ports.clocks,
        core.ensure_topic,
        settings.delay_horizon_seconds * 1000,
    )
    needs_token = bool(settings.token)
    door = (
        None
        if parts is None
        else parts.guard.grpc_door(settings.access_cluster, parts.jwt, needs_token_when_off=needs_token)
    )
    return GrpcService(
        shared,
        GrpcAccess(settings.token, door),
        OwnEndpoints(settings.grpc_advertise, settings.grpc_port),
        metrics,
        lambda: parts is None or parts.guard.is_ready,
    )


def _workers(settings: GatewaySettings, metrics: Metrics, parts: AccessParts | None) -> Workers:
    inner_http = None if parts is None else parts.guard.inner_http()
    return Workers(metrics, settings.worker, settings.worker_ports, inner_http)


def _schedulers(settings: GatewaySettings, ports: Ports, fleet: Fleet) -> ClaimHolders:
    holder, now = ports.schedulers.holder, ports.clocks.monotonic
    return ClaimHolders(fleet, holder, now, "scheduler", settings.takeover_seconds)


def _topics(settings: GatewaySettings, ports: Ports, fleet: Fleet, routes: RouteCache) -> TopicAdmin:
    return TopicAdmin(
        fleet,
        routes,
        ports.names,
        ports.stores,
        ports.hints,
        ports.clocks,
        window_ms=settings.idempotency_window_seconds * 1000,
        ready_seconds=settings.topic_ready_seconds,
    )


def _checkers(settings: GatewaySettings, ports: Ports, fleet: Fleet) -> ClaimHolders:
    holder, now = ports.transactions.holder, ports.clocks.monotonic
    return ClaimHolders(fleet, holder, now, "txn-checker", settings.takeover_seconds)


def _health_routes(
    ports: Ports, fleet: Fleet, workers: Workers, puller: Puller[MessageOut], parts: AccessParts | None
) -> list[Operation]:
    """Return the calls of probes and monitoring."""
    probe = Probe(fleet, ports.ids, ports.clocks.wall_ms, ports.clocks.monotonic)
    return health_routes(
        probe,
        workers.text,
        lambda: puller.is_draining,
        lambda: parts is None or parts.guard.is_ready,
    )


def _cluster_routes(
    ports: Ports, fleet: Fleet, known: KnownBrokers, topics: TopicAdmin, groups: GroupAdmin
) -> list[Operation]:
    """Return the calls about brokers, clusters and who leads."""
    view = ClusterView(fleet, ports.names, known, ports.replicas)
    return [
        *cluster_routes(view, topics, groups, ports.clocks.monotonic),
        *lead_routes(LeadMover(fleet, view, ports.replicas)),
        *broker_settings_routes(fleet),
    ]


def _access(settings: GatewaySettings, parts: AccessParts | None) -> Access:
    pages = WebPages(settings.listen, settings.allowed_hosts, settings.cors_origins)
    if parts is None:
        return Access(settings.token, pages, None)
    from gantry_access.rights.http_table import GATEWAY

    door = parts.guard.http_door(
        GATEWAY, settings.access_cluster, parts.jwt, needs_token_when_off=bool(settings.token)
    )
    return Access(settings.token, pages, door)


def _user_routes(settings: GatewaySettings, parts: AccessParts | None, fleet: Fleet) -> list[Operation]:
    """Return the calls about users; without access control each gets 404 with that reason."""
    switch = Switch(None if parts is None else _accounts(settings, parts, fleet))
    return [
        *user_routes(switch),
        *reseal_routes(switch),
        *policy_routes(switch),
        *token_routes(switch),
        *explain_routes(switch, settings.access_cluster),
    ]


def _accounts(settings: GatewaySettings, parts: AccessParts, fleet: Fleet) -> "Accounts":
    from gateway.users.accounts import Accounts
    from gateway.users.changes import Changes

    guard = parts.guard
    changes = Changes(guard.table, fleet, parts.changes)
    return Accounts(
        guard.table,
        guard.keys.sealing,
        changes,
        guard.audit,
        guard.now_ms,
        parts.secret_bytes,
        settings.access_cluster,
    )


def _fast_path(
    app: GatewayApp, answers: FastAnswers, stamps: ReplyStamps, send: SendRoute, leases: LeaseRoutes
) -> FastPath:
    fast_routes = (FastSends(send, answers), FastLeases(leases, answers, is_limited=send.is_limited))
    return FastPath(app.answer, stamps, app.is_hot, fast_routes, answers.fail, app.gate_of)


def _drain(*held: Puller[MessageOut] | Receiver | Transactions) -> None:
    """Answer all held calls now."""
    for one in held:
        one.drain()


def _call_metrics(
    metrics: Metrics,
    clock: Callable[[], float],
    send: SendRoute,
    pull: PullRoute,
    puller: Puller[MessageOut],
    leases: LeaseRoutes,
    receiver: Receiver,
) -> CallMetrics:
    call_metrics = CallMetrics(metrics, clock)
    call_metrics.show(
        sent=lambda: send.messages, pulled=lambda: pull.messages, held=lambda: puller.held_count
    )
    call_metrics.show_leases(
        received=lambda: leases.receive.messages,
        settled=lambda: leases.ack.messages,
        waiting=lambda: receiver.waiting,
    )
    return call_metrics


def _message_routes(ports: Ports, fleet: Fleet, routes: RouteCache, known: KnownBrokers) -> list[Operation]:
    """Return the calls that look messages up."""
    queries = Queries(fleet, routes, ports.stores, known, ports.clocks.monotonic)
    return message_routes(queries, MessageHistory(fleet, queries, ports.histories))


def _scheduler_routes(
    settings: GatewaySettings,
    ports: Ports,
    schedules: Schedules,
    claim_holders: ClaimHolders,
    fleet: Fleet,
    groups: GroupAdmin,
    routes: RouteCache,
) -> list[Operation]:
    """Return the calls that a scheduler carries out."""
    clocks, tasks = ports.clocks, Tasks(claim_holders, ports.schedulers)
    horizon_ms = settings.delay_horizon_seconds * 1000
    return [
        *schedule_routes(schedules, clocks.wall_ms, horizon_ms),
        *bulk_schedule_routes(tasks, clocks.wall_ms, horizon_ms),
        *parked_routes(schedules),
        *task_routes(tasks),
        *dead_letter_routes(DeadLetters(fleet, groups), groups, routes, tasks),
    ]


def _lease_routes(ports: Ports, routes: RouteCache, receiver: Receiver, access: Access) -> LeaseRoutes:
    """Return the hot calls of receive and acknowledge."""
    acker, limits = Acker(routes, ports.leases), ports.limits
    return LeaseRoutes(
        ReceiveRoute(receiver, limits, access), AckRoute(acker, limits), ExtendRoute(acker, limits)
    )


def _topic_maker(routes: RouteCache, topics: TopicAdmin, settings: GatewaySettings) -> EnsureTopic | None:
    """Return the creator of topics at their first send; None if the setting is off."""
    queues = settings.auto_create_queues
    if not settings.auto_create_topic:
        return None

    async def ensure(topic: str) -> None:
        if routes.fresh(topic) is not None:
            return
        try:
            await routes.get(topic)
        except Problem as problem:
            if problem.code != "TOPIC_NOT_EXIST":
                raise
            await topics.put(TopicSettings(topic, queues, queues, perm_bits("rw")))

    return ensure
