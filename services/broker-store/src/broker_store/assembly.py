"""Puts a store process together and lives its life: ports, recovery, serving, stop in order."""

import asyncio
import gc
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from broker_store.broker_conf import describe_values
from broker_store.broker_config import BrokerConfig
from broker_store.clock import StoreClock
from broker_store.commands import NOT_ON_FAST_PORT, CommandTable
from broker_store.config_files import DataVersionCounter
from broker_store.consuming import Consuming, ConsumingParts
from broker_store.disk_care import DiskCare
from broker_store.http_routes import SnapshotRoutes
from broker_store.log.commit_log import LogState
from broker_store.log.errors import LogError, StoreInUse
from broker_store.log.files import RealFiles
from broker_store.log.lock import StoreLock
from broker_store.log.snapshot import Snapshots
from broker_store.opening import OpenedStore, Opening
from broker_store.own_figures import count_puts, show_figures
from broker_store.read_settings import ReadSettings
from broker_store.registration import Identity, Registration
from broker_store.requests import request_classes
from broker_store.runtime_state import RuntimeReader
from broker_store.sending import Sending
from broker_store.settings import Settings
from gantry_chassis.http import HttpServer, health_routes
from gantry_chassis.logs import get_logger
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.process import Life, StartRefused
from gantry_link.limits import LinkLimits
from gantry_link.peer import Peer
from gantry_link.pool import ConnectionPool
from gantry_link.server import RemotingServer
from gantry_link.turn import Turn
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frame import RawFrame
from gantry_wire.ids import pack_host

GC_THRESHOLDS = (100_000, 50, 100)
"""Messages on their way hold no cycles: looking for some after every 700 of them only costs time."""

_log = get_logger()


class StoreProcess:
    """One broker-store. Doors open first (a taken port is known at once), and let nobody in until recovery is over."""

    def __init__(self, settings: Settings, life: Life) -> None:
        self._settings = settings
        self._life = life
        self._files = RealFiles()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self._clock = StoreClock(time.time, time.monotonic)
        self._metrics = Metrics()
        self._classes = request_classes()
        self._main = CommandTable(self._classes)
        self._fast = self._main
        self._reason: str | None = "starting"
        self._snapshot_routes = SnapshotRoutes(self._thread, self._clock.now_ms)
        self._consuming: Consuming | None = None
        self._sending: Sending | None = None
        limits = LinkLimits(
            output_bytes_max=settings.output_bytes_max,
            output_pause_bytes=min(LinkLimits().output_pause_bytes, settings.output_bytes_max),
            idle_seconds=settings.idle_seconds,
        )
        self._server = RemotingServer(self._receive, on_close=self._closed, limits=limits)
        self._fast_server = RemotingServer(self._receive_fast, on_close=self._closed, limits=limits)
        self._pool = ConnectionPool()
        self._hints = Hints(settings.nats_url, "broker-store")

    async def run(self) -> None:
        """Live until asked to stop. Raises StartRefused when the surroundings do not allow a start."""
        settings = self._settings
        lock = self._lock()
        http = HttpServer(
            settings.listen,
            settings.http_port_used,
            {**health_routes(self._not_ready, self._metrics), **self._snapshot_routes.routes()},
        )
        port = await self._listen(http)
        try:
            await self._open_and_serve(port, http.port)
            await self._life.stopping.wait()
        finally:
            await self._stop(http)
            lock.release()

    def _lock(self) -> StoreLock:
        directory = str(self._settings.store_dir)
        try:
            return StoreLock(directory)
        except StoreInUse as error:
            raise StartRefused(str(error)) from error
        except OSError as error:
            raise StartRefused(f"store directory {directory} cannot be used: {error.strerror}") from error

    async def _listen(self, http: HttpServer) -> int:
        settings = self._settings
        try:
            await http.start()
            port = await self._server.listen(settings.listen, settings.port)
            await self._fast_server.listen(settings.listen, settings.fast_port_used)
        except OSError as error:
            raise StartRefused(f"a port of {settings.listen} cannot be opened: {error}") from error
        return port

    async def _open_and_serve(self, port: int, http_port: int) -> None:
        settings = self._settings
        self._reason = "recovering the log"
        store_host = pack_host(_resolve(settings.advertised_host), port)
        store = await self._open(store_host)
        address = f"{settings.advertised_host}:{port}"
        sending = Sending(store, self._classes, Turn.current().at_end, self._thread)
        self._sending = sending
        config = BrokerConfig(describe_values(settings), DataVersionCounter(self._clock.now_ms))
        consuming = self._build_consuming(store, sending, config, address)
        self._consuming = consuming
        sending.retries.find_group = consuming.groups.find_or_create
        sending.removal.on_removed.append(consuming.topic_deleted)
        sending.appends.figures = consuming.figures
        registration = self._build_registration(store, config, sending, address, port)
        self._main.add_all({**sending.commands(), **consuming.commands()})
        self._fast = self._main.without(NOT_ON_FAST_PORT)
        sending.start(consuming)
        self._start_loops(store, sending, consuming, registration)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        if registration is not None:
            await registration.register()
        self._reason = None
        _log.info("ready", address=address, http_port=http_port, store=store.directory, flush=settings.flush)

    async def _open(self, store_host: bytes) -> OpenedStore:
        try:
            opening = Opening(self._settings, self._files, self._clock, store_host)
            told_s = time.monotonic()
            for _ in opening.run():
                await asyncio.sleep(0)
                if time.monotonic() - told_s > 1.0:
                    told_s = time.monotonic()
                    _log.info("recovering", records=opening.records, position=opening.store.log.visible_end)
        except LogError as error:
            raise StartRefused(str(error)) from error
        return opening.store

    def _build_consuming(
        self, store: OpenedStore, sending: Sending, config: BrokerConfig, address: str
    ) -> Consuming:
        settings = self._settings
        reads = ReadSettings(
            broker_permission=settings.broker_permission,
            long_polling_enable=settings.long_polling_enable,
            protect_broker=settings.protect_broker,
            fallbehind_bytes_max=settings.fallbehind_bytes_max,
        )
        reads.set_pull_bytes_max(settings.pull_bytes_max)
        runtime = RuntimeReader(store, sending.appends, self._clock.now_ms)
        consuming = Consuming(
            ConsumingParts(
                log=store.log,
                queues=store.queues,
                topics=store.topics,
                index=store.index,
                index_trouble=lambda: None,
                append_internal=sending.internal.append,
                files=self._files,
                config_dir=store.config_dir,
                own_dir=f"{store.directory}/gantry",
                now_ms=self._clock.now_ms,
                classes=self._classes,
                metrics=self._metrics,
                config=config,
                settings=reads,
                state=runtime.read,
                cluster_name=settings.cluster_name,
                broker_name=settings.broker_name,
                address=address,
            )
        )
        consuming.groups.auto_create = settings.auto_create_groups
        consuming.groups.on_change.append(lambda group: self._hints.publish("gantry.group", group.encode()))
        return consuming

    def _build_registration(
        self, store: OpenedStore, config: BrokerConfig, sending: Sending, address: str, port: int
    ) -> Registration | None:
        settings = self._settings
        if not settings.nameservers:
            return None
        host = settings.advertised_host
        identity = Identity(settings.cluster_name, settings.broker_name, address, f"{host}:{port + 1}")
        registration = Registration(
            self._pool,
            settings.nameservers,
            identity,
            store.topics,
            every_seconds=settings.register_seconds,
            publish=self._hints.publish,
        )
        registration.broker_permission = settings.broker_permission

        def set_permission(value: str) -> None:
            registration.broker_permission = sending.targets.broker_permission = int(value)
            store.topics.version.bump()
            registration.topic_changed("")

        config.bind("brokerPermission", set_permission)
        store.topics.on_change.append(registration.topic_changed)
        return registration

    def _start_loops(
        self, store: OpenedStore, sending: Sending, consuming: Consuming, registration: Registration | None
    ) -> None:
        snapshots = Snapshots(self._files, store.directory, store.checkpoint.log_id)
        self._snapshot_routes.open(store, snapshots)
        care = DiskCare(
            self._settings,
            self._files,
            store.log,
            store.queues,
            store.index,
            snapshots,
            self._thread,
            self._clock.now_ms,
        )
        sending.appends.on_disk_full = care.disk_full_met
        show_figures(self._metrics, store, sending, self._server, care)
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "flushes": sending.look_after_flushes,
            "checkpoints": sending.take_checkpoints,
            "space": care.watch_space,
            "retention": care.delete_old,
            "hints": self._hints.run,
            "puts": partial(count_puts, store.queues, consuming.figures),
        }
        if registration is not None:
            loops["registration"] = registration.run
        for name, loop in {**loops, **consuming.loops()}.items():
            self._life.supervise(name, loop)
        self._registration = registration

    async def _stop(self, http: HttpServer) -> None:
        """Stop accepting, answer what is held and under way, flush, close the log."""
        self._reason = "stopping"
        self._server.stop_accepting()
        self._fast_server.stop_accepting()
        sending, consuming = self._sending, self._consuming
        if sending is not None and consuming is not None:
            if self._registration is not None:
                await self._registration.unregister()
            await consuming.stop()
            await sending.drain(self._settings.drain_seconds)
        await self._server.close(1.0)
        await self._fast_server.close(1.0)
        await self._life.end_loops()
        if sending is not None:
            await sending.stop()
        await self._pool.close()
        await http.close()
        self._thread.shutdown()

    _registration: Registration | None = None

    def _not_ready(self) -> str | None:
        if self._reason is None and self._sending is not None:
            log = self._sending.store.log
            if log.state is LogState.STOPPED:
                return f"the log is stopped: {log.stop_reason}; reads are served, restart to have it checked"
        return self._reason

    def _receive(self, peer: Peer, raw: RawFrame) -> None:
        if self._reason is not None:
            raise _not_serving(self._reason)
        self._main.receive(peer, raw)

    def _receive_fast(self, peer: Peer, raw: RawFrame) -> None:
        if self._reason is not None:
            raise _not_serving(self._reason)
        self._fast.receive(peer, raw)

    def _closed(self, peer: Peer) -> None:
        if self._consuming is not None:
            self._consuming.closed(peer)


def _not_serving(reason: str) -> RefusedRequest:
    words = f"the store does not serve now: {reason}; try again in a moment"
    return RefusedRequest(ResponseCode.SERVICE_NOT_AVAILABLE, words, {"gantryCode": "NOT_SERVING"})


def _resolve(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise StartRefused(f"advertised host {host!r} has no address: {error}") from error
