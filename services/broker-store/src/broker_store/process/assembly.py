"""Assembles a store process and runs it: ports, recovery, serving, orderly stop."""

import asyncio
import gc
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from broker_store.clocks.clock_care import ClockCare
from broker_store.clocks.opening import clock_file, open_clock
from broker_store.config.broker_conf import describe_values
from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.config.runtime_config_file import RuntimeConfigFile
from broker_store.derived import lowest_pin
from broker_store.log.commit_log import LogState
from broker_store.log.errors import LogError, StoreInUse
from broker_store.log.files import RealFiles
from broker_store.log.lock import StoreLock
from broker_store.log.snapshot import Snapshots
from broker_store.opening.opening import Opening, Slices
from broker_store.ports import Commands
from broker_store.process.building import Surroundings, build_consuming, build_hooks, build_registration
from broker_store.process.disk_care import DiskCare, LiveRetention
from broker_store.process.features import Feature, all_commands, all_loops, build_features
from broker_store.process.hooking import Hooks
from broker_store.process.http_routes import SnapshotRoutes
from broker_store.process.listeners import Listeners
from broker_store.process.reading import Consuming
from broker_store.process.registration import Registration
from broker_store.process.sending import Sending
from broker_store.process.store_metrics import count_puts, register_metrics
from broker_store.reading.rebuild_reads import rebuild_commands
from broker_store.requests.command_table import CommandTable
from broker_store.requests.request_classes import request_classes
from broker_store.settings import Settings
from gantry_chassis.addresses import joined
from gantry_chassis.budget import show_budget
from gantry_chassis.http import health_routes
from gantry_chassis.logs import get_logger
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.private_files import private_directory
from gantry_chassis.process import Life, StartRefused
from gantry_link.peer import Peer
from gantry_link.pool import ConnectionPool
from gantry_link.turn import Turn
from gantry_wire.ids import pack_host
from gantry_wire.known_headers import KnownHeaders

GC_THRESHOLDS = (100_000, 50, 100)
"""In-flight messages contain no cycles, so a collection after every 700 of them would only cost time."""
PROGRESS_SECONDS = 1.0

_log = get_logger()


class StoreProcess:
    """One broker-store, from its ports to its last checkpoint."""

    def __init__(self, settings: Settings, life: Life, *, fast_paths: bool) -> None:
        self._settings = settings
        self._life = life
        self._files = RealFiles()
        self._thread = life.environment.workers(1, "disk")
        self._clock = open_clock(self._files, str(settings.store_dir), life.environment)
        self._metrics = Metrics()
        self._classes = request_classes()
        self._fast_paths = fast_paths
        self._known_headers = KnownHeaders() if fast_paths else None
        self._snapshot_routes = SnapshotRoutes(self._thread, self._clock.now_ms)
        routes = {**health_routes(self._not_ready, self._metrics), **self._snapshot_routes.routes()}
        budget = settings.make_budget(life.environment.steady)
        show_budget(self._metrics, "gantry_store", budget)
        self._listeners = Listeners(settings, routes, budget, self._closed)
        self._pool = ConnectionPool(rng=life.environment.rng)
        self._hints = Hints(settings.nats_url, "broker-store", life.environment.rng, settings.nats_token_file)
        self._opening: Opening | None = None
        self._sending: Sending | None = None
        self._consuming: Consuming | None = None
        self._features: list[Feature] = []
        self._registration: Registration | None = None
        self._hooks: Hooks | None = None
        self._retention = LiveRetention(settings)
        self._is_recovered = False

    async def run(self) -> None:
        """Run until asked to stop. Raises StartRefused when the environment does not allow a start."""
        gc.set_threshold(*GC_THRESHOLDS)
        lock = self._lock()
        try:
            await self._listeners.listen()
            await self._open_and_serve()
            await self._life.stopping.wait()
        finally:
            await self._stop()
            lock.release()

    def _lock(self) -> StoreLock:
        directory = str(self._settings.store_dir)
        try:
            private_directory(self._settings.store_dir)
            return StoreLock(directory)
        except StoreInUse as error:
            raise StartRefused(str(error)) from error
        except OSError as error:
            raise StartRefused(f"store directory {directory} cannot be used: {error.strerror}") from error

    async def _open_and_serve(self) -> None:
        settings, port = self._settings, self._listeners.port
        self._listeners.reason = "recovering the log"
        store_host = pack_host(_resolve(settings.advertised_host), port)
        try:
            self._opening = Opening(settings, self._files, self._clock, store_host, self._life.environment)
            slices = self._opening.run()
            if await self._recover(self._opening, slices, until_rebuild=True):
                self._build(self._opening)
            if self._opening.is_rebuild and not self._life.stopping.is_set():
                await self._serve_reads(self._opening, slices)
        except LogError as error:
            raise StartRefused(str(error)) from error
        if not self._life.stopping.is_set():
            await self._serve(self._opening)

    async def _recover(self, opening: Opening, slices: Slices, *, until_rebuild: bool) -> bool:
        """Run slices of the recovery to its end, or to where a rebuild begins. False when asked to stop meanwhile."""
        steady = self._life.environment.steady
        logged_s = steady()
        for _ in slices:
            if until_rebuild and opening.is_rebuild:
                return True
            await asyncio.sleep(0)
            if self._life.stopping.is_set():
                return False
            if steady() - logged_s > PROGRESS_SECONDS:
                logged_s = steady()
                _log.info("recovering", position=opening.store.log.visible_end, rebuild=opening.is_rebuild)
        self._is_recovered = True
        return True

    def _build(self, opening: Opening) -> None:
        settings, store = self._settings, opening.store
        address = joined(settings.advertised_host, self._listeners.port)
        sending = Sending(
            store, self._classes, Turn.current().at_end, self._thread, fast_paths=self._fast_paths
        )
        values = describe_values(settings, self._listeners.port, self._listeners.fast_port)
        config = BrokerConfig(values, DataVersionCounter(self._clock.now_ms))
        around = Surroundings(
            settings, self._files, self._classes, self._metrics, self._clock.now_ms, self._hints, self._pool,
            address, self._index_trouble,
        )  # fmt: skip
        sending.bind_settings(config)
        consuming = build_consuming(around, store, sending, config)
        sending.retries.find_group = consuming.groups.find_or_create
        sending.removal.on_removed.append(consuming.topic_deleted)
        sending.appends.metrics = consuming.metrics
        kept = RuntimeConfigFile(config, self._files, store.config_dir, self._thread)
        self._features = build_features(around, store, sending, consuming, self._thread, kept)
        self._sending, self._consuming = sending, consuming
        self._hooks = build_hooks(around, sending)
        self._registration = build_registration(around, store, sending, config)
        self._retention.bind(config)
        kept.restore()

    async def _serve_reads(self, opening: Opening, slices: Slices) -> None:
        """Continue the rebuild and serve pulls of what is rebuilt."""
        table = CommandTable(self._classes, self._known_headers)
        table.add_all(rebuild_commands(self._commands(), opening.store.queues.find))
        self._listeners.admit(table)
        self._listeners.reason = "rebuilding queues and index; pulls are served"
        if self._registration is not None:
            await self._registration.register()
        await self._recover(opening, slices, until_rebuild=False)

    def _commands(self) -> Commands:
        """Return every command of the fully recovered store."""
        assert self._sending is not None
        assert self._consuming is not None
        return {**self._sending.commands(), **self._consuming.commands(), **all_commands(self._features)}

    async def _serve(self, opening: Opening) -> None:
        sending, consuming, settings = self._sending, self._consuming, self._settings
        assert sending is not None
        assert consuming is not None
        table = CommandTable(self._classes, self._known_headers)
        assert self._hooks is not None
        table.add_all(self._hooks.commands(self._commands()))
        table.add_quick(sending.plain.take, sending.send_one)
        sending.start(self._hooks.readers(consuming))
        self._start_loops(opening, sending, consuming)
        gc.collect()
        gc.freeze()
        self._listeners.admit(table)
        if self._registration is not None:
            await self._registration.register()
        self._listeners.reason = ""
        address = joined(settings.advertised_host, self._listeners.port)
        _log.info(
            "ready",
            address=address,
            http_port=self._listeners.http.port,
            store=opening.store.directory,
            flush=settings.flush,
        )

    def _start_loops(self, opening: Opening, sending: Sending, consuming: Consuming) -> None:
        store = opening.store
        snapshots = Snapshots(
            self._files, store.directory, store.checkpoint.log_id, self._life.environment.secret_bytes
        )
        self._snapshot_routes.open(store, snapshots)
        care = DiskCare(
            self._settings, self._files, store.log, store.queues, store.index, snapshots, self._thread,
            self._clock,
        )  # fmt: skip
        sending.cleaner, care.retention = care, self._retention
        care.held_from = lambda: lowest_pin(store.states.all())
        sending.settling.roll_below = lambda: care.roll_below
        sending.appends.on_disk_full = care.disk_full_met
        register_metrics(self._metrics, store, sending, self._listeners.server, care)
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "clocks": ClockCare(self._clock, clock_file(self._files, store.directory), self._thread).run,
            "flushes": sending.look_after_flushes,
            "checkpoints": sending.take_checkpoints,
            "space": care.watch_space,
            "retention": care.delete_old,
            "hints": self._hints.run,
            "puts": partial(count_puts, store.queues, consuming.metrics, store.states.settled),
        }
        if self._registration is not None:
            loops["registration"] = self._registration.run
        for name, loop in {**loops, **consuming.loops(), **all_loops(self._features)}.items():
            self._life.supervise(name, loop)

    async def _stop(self) -> None:
        """Stop accepting, answer held and running requests, flush, close the log."""
        self._listeners.shut("stopping")
        sending, consuming = self._sending, self._consuming
        if self._registration is not None:
            await self._registration.unregister()
        if consuming is not None:
            await consuming.stop()
        if self._hooks is not None:
            self._hooks.close()
        for part in self._features:
            await part.close()
        if sending is not None and self._is_recovered:
            await sending.drain(self._settings.drain_seconds)
        await self._listeners.close()
        await self._life.end_loops()
        if sending is not None and self._is_recovered:
            await sending.stop()
        elif self._opening is not None:
            self._opening.abandon()
        await self._pool.close()
        self._thread.close()

    def _not_ready(self) -> str | None:
        if not self._listeners.reason and self._sending is not None:
            log = self._sending.store.log
            if log.state is LogState.STOPPED:
                return f"the log is stopped: {log.stop_reason}; reads are served, restart to have it checked"
        return self._listeners.reason or None

    def _index_trouble(self) -> str | None:
        return None if self._is_recovered else "the index is being rebuilt"

    def _closed(self, peer: Peer) -> None:
        if self._sending is not None:
            self._sending.settling.closed(peer.id)
        if self._consuming is not None:
            self._consuming.closed(peer)
        for part in self._features:
            part.closed(peer)


def _resolve(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise StartRefused(f"advertised host {host!r} has no address: {error}") from error
