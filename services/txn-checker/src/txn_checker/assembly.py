"""Builds a txn-checker from its settings: a claim, a watch and two loops per store, and one request port."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from gantry_chassis.certificates import OutgoingFiles, open_certificate
from gantry_chassis.http.server import HttpServer, health_routes
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import joined
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.peers.budget import show_budget
from gantry_chassis.process import Life
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.opening import open_guard
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.client_tls import hints_tls, outgoing_tls
from gantry_link.connections.pool import ConnectionPool
from gantry_link.serving.service_listener import Route, Routes, ServiceListener
from gantry_link.serving.tls_door import TlsDoor
from gantry_link.system_queues.claims import Claims, Held, QueueKey
from gantry_link.system_queues.fleet import Fleet, StoreAt
from gantry_wire.codes import GantryCode
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.transactions import ListTransactions, ReceiveChecks
from txn_checker.answers import Answers
from txn_checker.asking import Producers
from txn_checker.link_store import LinkStore
from txn_checker.settings import CheckerSettings
from txn_checker.store_watch import StoreWatch

if TYPE_CHECKING:
    from gantry_guard.http_door import HttpDoor

SERVICE = "txn-checker"
HALF_QUEUE: QueueKey = (HALF_TOPIC, 0)

_log = get_logger()


class CheckerProcess:
    """One checker. Two may run: each store's claim decides which of them works on it."""

    def __init__(self, settings: CheckerSettings, life: Life) -> None:
        self._settings, self._life = settings, life
        self._metrics = Metrics()
        self._guard = guard = open_guard(settings, SERVICE, self._metrics, life.environment)
        outgoing = OutgoingFiles(self._metrics, "txn_checker")
        self._pool = ConnectionPool(
            rng=life.environment.rng,
            introduce=None if guard is None else guard.introducer,
            tls=outgoing.open(outgoing_tls, settings),
        )
        self._hints = Hints(
            settings.nats_url,
            SERVICE,
            life.environment.rng,
            settings.nats_token_file,
            outgoing.open(hints_tls, settings),
        )
        names = NameserverClient(self._pool, settings.nameservers)
        self._fleet = Fleet(names, self._joined, self._left, poll_seconds=settings.poll_seconds)
        self._watches: dict[str, StoreWatch] = {}
        self._stores: dict[str, LinkStore] = {}
        self._leaving: dict[str, asyncio.Event] = {}
        self._producers = Producers(self._stores.values)
        self._answers = Answers(self._watches.values)
        self._address = ""
        self._budget = settings.make_budget(life.environment.steady)
        self._listener = ServiceListener(
            self._routes(),
            failed=_failed,
            budget=self._budget,
            admit=None if guard is None else guard.inner_door().admit,
        )

    async def run(self) -> None:
        """Run until a signal stops it. Raises StartRefused when a port is unavailable."""
        settings = self._settings
        self._add_metrics()
        show_budget(self._metrics, "txn_checker", self._budget)
        door = TlsDoor.of(open_certificate(settings, self._life, self._metrics, "txn_checker"), self._budget)
        routes = health_routes(self._not_ready, self._metrics)
        http = HttpServer(
            settings.listen,
            settings.http_port_or_next,
            routes,
            self._budget,
            settings.allowed_hosts,
            listen=self._life.environment.listening_socket,
            authorizer=self._http_door(),
        )
        port, http_port = await self._listen(http, door)
        self._address = joined(settings.advertised_host(self._life.environment.reachable_address), port)
        self._hints.subscribe("gantry.route.*", lambda _subject, _payload: self._fleet.hint())
        self._life.supervise("hints", self._hints.run)
        self._life.supervise("fleet", self._fleet.run)
        if self._guard is not None:
            follower = self._guard.follower(lambda: self._fleet.addresses, self._pool, self._metrics)
            self._life.supervise("access", follower.run)
            self._life.supervise("audit", self._guard.audit.run)
        _log.info(
            "ready",
            remoting=joined(settings.listen, port),
            http=f"http://{joined(settings.listen, http_port)}",
        )
        await self._life.stopping.wait()
        self._answers.stop()
        await self._listener.close(settings.drain_seconds)
        await self._life.end_loops()
        await http.close()
        await self._pool.close()
        if self._guard is not None:
            self._guard.audit.close()

    def _http_door(self) -> "HttpDoor | None":
        return (
            None if self._guard is None else self._guard.own_port_door(SERVICE, self._settings.access_cluster)
        )

    def _routes(self) -> Routes:
        return {
            GantryCode.LIST_TRANSACTIONS: Route("list", ListTransactions, self._answers.transactions),
            GantryCode.RECEIVE_CHECKS: Route("checks", ReceiveChecks, self._answers.receive_checks),
        }

    async def _listen(self, http: HttpServer, door: TlsDoor | None) -> tuple[int, int]:
        settings = self._settings
        where = joined(settings.listen, settings.port)
        try:
            port = await self._listener.listen(settings.listen, settings.port, door)
            where = joined(settings.listen, settings.http_port_or_next)
            return port, await http.start(door)
        except OSError as error:
            raise StartRefused(f"cannot listen on {where}: {error.strerror}; set another port") from error

    # Stores that come and go

    def _joined(self, at: StoreAt) -> None:
        settings, environment = self._settings, self._life.environment
        store = LinkStore(self._pool, at.broker, at.address)
        watch = StoreWatch(
            store,
            settings.policy(),
            self._producers,
            settings.poll_ms / 1000,
            self._answers.news,
            asyncio.get_running_loop().time,
        )
        claims = Claims(
            store.calls,
            [HALF_QUEUE],
            owner=f"txn-checker {self._address} {environment.process_id}-{environment.secret_bytes(16).hex()}",
            address=self._address,
            acquired=partial(_acquired, watch),
            lost=partial(_lost, watch),
            ttl_ms=settings.claim_ttl_ms,
        )
        self._stores[at.broker], self._watches[at.broker] = store, watch
        leaving = self._leaving[at.broker] = asyncio.Event()
        name = f"{at.broker} at {at.address}"
        self._life.supervise(f"claim of {name}", partial(_until, leaving, claims.run))
        self._life.supervise(f"halves of {name}", partial(_until, leaving, partial(watch.run, claims.fenced)))

    def _left(self, at: StoreAt) -> None:
        self._leaving.pop(at.broker).set()
        self._stores.pop(at.broker)
        self._watches.pop(at.broker)

    # Metrics

    def _not_ready(self) -> str | None:
        if self._life.stopping.is_set():
            return "stopping"
        return self._fleet.unanswered

    def _add_metrics(self) -> None:
        metrics, watches = self._metrics, self._watches

        def per_store(read: Callable[[StoreWatch], float]) -> Callable[[], dict[tuple[str, ...], float]]:
            return lambda: {(broker,): read(watch) for broker, watch in watches.items()}

        broker = ("broker",)
        gauges: list[tuple[str, str, Callable[[StoreWatch], float]]] = [
            ("txn_checker_claim_held", "1 where this checker holds the claim.", lambda watch: watch.is_held),
            ("txn_checker_undecided", "Undecided halves in memory.", lambda watch: len(watch.undecided)),
        ]
        for name, help_text, read in gauges:
            metrics.gauge(name, help_text, per_store(read), broker)
        counted: list[tuple[str, str, Callable[[StoreWatch], float]]] = [
            ("txn_checker_checked", "Checks.", lambda watch: watch.checked),
            ("txn_checker_parked", "Parked halves.", lambda watch: watch.parked),
        ]
        for name, help_text, read in counted:
            metrics.counted(name, help_text, per_store(read), broker)
        metrics.counted("txn_checker_asked", "Producers asked.", lambda: self._producers.asked)
        metrics.counted(
            "txn_checker_nobody_to_ask",
            "Checks without a connected client of the producer group.",
            lambda: self._producers.nobody,
        )


def _acquired(watch: StoreWatch, held: dict[QueueKey, Held]) -> None:
    watch.hold(held[HALF_QUEUE].epoch)
    _log.info("claim held", broker=watch.store.broker, epoch=held[HALF_QUEUE].epoch)


def _lost(watch: StoreWatch, why: str) -> None:
    watch.release()
    _log.info("claim lost", broker=watch.store.broker, reason=why)


def _failed(route: str, error: Exception) -> None:
    _log.error("request failed", route=route, exc_info=error)


async def _until(leaving: asyncio.Event, loop: Callable[[], Awaitable[None]]) -> None:
    """Run a loop until its store leaves; re-raise its errors."""
    work = asyncio.ensure_future(loop())
    left = asyncio.ensure_future(leaving.wait())
    try:
        await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    finally:
        work.cancel()
        left.cancel()
        await asyncio.gather(work, left, return_exceptions=True)


async def serve(settings: CheckerSettings, life: Life) -> None:
    """Run a checker until `life.stopping`."""
    await CheckerProcess(settings, life).run()
