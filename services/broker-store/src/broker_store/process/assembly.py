"""Assembles a store process and runs it: ports, recovery, serving, orderly stop."""

import asyncio
import gc
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from broker_store.admin.replication_handler import Group
from broker_store.clocks.clock_care import ClockCare
from broker_store.clocks.opening import clock_file, open_clock
from broker_store.commit.flusher import OwnDisk
from broker_store.config.broker_conf import describe_values
from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.groups.clients import ClientTable
from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.snapshot import Snapshots
from broker_store.metrics.request_class_metrics import watch_classes
from broker_store.opening.opened_store import OpenedStore
from broker_store.opening.opening import Opening, Slices
from broker_store.process.built import Built
from broker_store.process.disk import Disk, refusing_start
from broker_store.process.extension_hooks import build_hooks
from broker_store.process.foundation import (
    Surroundings,
    build_foundation,
    follower_registration,
    lock_file,
)
from broker_store.process.group.follower_table import GroupTable, not_leader
from broker_store.process.group.register import GroupRegister, OpenRegister, RegisterOpening
from broker_store.process.group.register_note import group_and_note
from broker_store.process.group.settings import GroupSettings
from broker_store.process.halves_and_features import (
    all_loops,
    build_features,
    build_halves,
    listeners_of,
)
from broker_store.process.http_routes import ReplicationRoute, SnapshotRoutes
from broker_store.process.listeners import Listeners
from broker_store.process.measuring import count_puts, register_metrics
from broker_store.process.parts.access import Access
from broker_store.process.parts.configuration import Configuration
from broker_store.process.parts.sending import Sending
from broker_store.process.parts.slaves import open_ha_port
from broker_store.process.snapshot_content import followed, served
from broker_store.process.users_at_start import begin_users, settle_users, user_files
from broker_store.reading.rebuild_reads import rebuild_commands
from broker_store.replication.states import ReplicaState
from broker_store.requests.command_table import CommandTable, Door
from broker_store.requests.request_classes import request_classes
from broker_store.settings import Settings
from broker_store.transactions.producer_checks import DecisionRights, Relays
from gantry_chassis.certificates import OutgoingFiles, open_certificate
from gantry_chassis.http.server import health_routes
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import joined
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.peers.budget import show_budget
from gantry_chassis.process import Life
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.opening import open_guard
from gantry_link.connections.client_tls import hints_tls, outgoing_tls
from gantry_link.connections.connection import Connection
from gantry_link.connections.pool import ConnectionPool
from gantry_link.connections.turn import Turn
from gantry_link.limits import LinkLimits
from gantry_link.serving.peer import Peer
from gantry_link.serving.tls_door import TlsDoor
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.known_headers import KnownHeaders
from gantry_wire.messages.ids import pack_host

if TYPE_CHECKING:
    from broker_store.process.following.service import FollowerService
    from broker_store.process.membership import Membership
    from broker_store.process.parts.access_control import AccessControl

GC_THRESHOLDS = (100_000, 50, 100)
"""In-flight messages contain no cycles, so a collection after every 700 of them would only cost time."""
PROGRESS_SECONDS = 1.0
SERVICE = "broker-store"

_log = get_logger()


class StoreProcess:
    """One broker-store, from its ports to its last checkpoint."""

    def __init__(
        self, settings: Settings, life: Life, disk: Disk, open_register: OpenRegister, *, fast_paths: bool
    ) -> None:
        """`open_register`: opens the register of the store's group, if the settings name replicas."""
        self._settings, self._open_register = settings, open_register
        self._life = life
        self._disk, self._files = disk, disk.files
        self._thread = life.environment.workers(1, "disk")
        with refusing_start(settings.store_dir):
            self._clock = open_clock(self._files, str(settings.store_dir), life.environment)
        self._metrics = Metrics()
        self._classes = request_classes()
        self._fast_paths = fast_paths
        self._known_headers = KnownHeaders() if fast_paths else None
        self._snapshots = Snapshots(self._files, str(settings.store_dir), life.environment.secret_bytes)
        self._snapshot_routes = SnapshotRoutes(self._snapshots, self._thread, self._clock.now_ms)
        self._replication_route = ReplicationRoute()
        routes = {
            **health_routes(self._not_ready, self._metrics), **self._snapshot_routes.routes(), **self._replication_route.routes(),
        }  # fmt: skip
        budget = settings.make_budget(life.environment.steady)
        show_budget(self._metrics, "gantry_store", budget)
        self._guard = guard = open_guard(settings, SERVICE, self._metrics, life.environment)
        self._group, self._register_note = group_and_note(settings, self._files)
        self._listeners = Listeners(
            settings, routes, budget, self._closed, life.environment.listening_socket,
            None if guard is None else guard.own_port_door(SERVICE, settings.cluster_name),
            open_ha_port(settings, life.environment, self._metrics, budget),
        )  # fmt: skip
        self._door = TlsDoor.of(open_certificate(settings, life, self._metrics, "gantry_store"), budget)
        self._user_files = user_files(settings)
        introduce = None if guard is None else guard.introducer
        outgoing = OutgoingFiles(self._metrics, "gantry_store")
        tls = outgoing.open(outgoing_tls, settings)
        self._pool = ConnectionPool(rng=life.environment.rng, introduce=introduce, tls=tls)
        nats_tls = outgoing.open(hints_tls, settings)
        self._hints = Hints(
            settings.nats_url,
            SERVICE,
            life.environment.rng,
            settings.nats_token_file,
            nats_tls,
        )
        self._make_pool = partial(ConnectionPool, rng=life.environment.rng, introduce=introduce, tls=tls)
        self._nats_tls = nats_tls
        self._membership: Membership | None = None
        self._opening: Opening | None = None
        self._clients = ClientTable()
        self._following: FollowerService | None = None
        self._built: Built | None = None
        self._is_recovered = False

    async def run(self) -> None:
        """Run until asked to stop. Raises StartRefused when the environment does not allow a start."""
        gc.set_threshold(*GC_THRESHOLDS)
        lock = self._disk.take(self._settings.store_dir)
        try:
            await self._listeners.listen(self._door)
            await self._open_and_serve()
            await self._life.stopping.wait()
        finally:
            await self._stop()
            lock.release()
        if self._membership is not None:
            self._membership.raise_end()

    @property
    def _host(self) -> str:
        return self._settings.advertised_host(self._life.environment.reachable_address)

    @property
    def _address(self) -> str:
        """host:port as advertised to clients."""
        return joined(self._host, self._listeners.port)

    async def _open_and_serve(self) -> None:
        settings, port = self._settings, self._listeners.port
        self._listeners.wait_for("recovering the log")
        store_host = pack_host(_resolve(self._host), port)
        with refusing_start(settings.store_dir):
            if self._group is not None:
                self._clear_directory()
            self._opening = Opening(settings, self._files, self._clock, store_host, self._life.environment)
            slices = self._opening.run() if self._group is None else self._opening.recover()
            if not await self._recover(self._opening, slices, until_rebuild=self._group is None):
                return
            if self._group is not None and not await self._lead(self._opening, self._group):
                return
            self._built = built = self._build(self._opening)
            if self._opening.is_rebuild and not self._is_recovered and not self._life.stopping.is_set():
                await self._serve_reads(built, self._opening, slices)
        if not self._life.stopping.is_set():
            await self._serve(built, self._opening)

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

    def _clear_directory(self) -> None:
        """Clear what a replica that begins again, or whose log was filled, does not use any more."""
        from broker_store.process.group.kept import clear_directory

        clear_directory(self._files, str(self._settings.store_dir))

    async def _lead(self, opening: Opening, group: GroupSettings) -> bool:
        """Follow the leader of the group until this store leads. False when asked to stop meanwhile."""
        from broker_store.process.membership import open_membership

        def open_register(version: int) -> GroupRegister:
            return self._open_register(
                RegisterOpening(self._settings, group, version, self._life.environment, self._nats_tls)
            )

        self._membership = membership = open_membership(
            self._life,
            self._make_links_pool,
            open_register,
            group,
            opening,
            self._thread,
            fast_paths=self._fast_paths,
        )
        self._replication_route.open(membership.report.describe, membership.move)
        membership.report.show(self._metrics)
        self._life.supervise("replicas", membership.report.run)
        self._life.supervise("fitness", membership.fitness.run)
        self._life.supervise("filling", membership.refilling.run)
        if (note := self._register_note) is not None:
            self._life.supervise("note", partial(note.keep, lambda: membership.epoch > 0, self._thread))

        self._following = following = self._follow(opening, membership)
        following.start()
        self._listeners.wait_for("following the leader of its group")
        registrations = follower_registration(
            self._settings, self._pool, self._address, self._hints, opening.store.topics, group.follower_id,
            lambda: membership.followed_epoch,
        )  # fmt: skip
        if not membership.refilling.has_gaps:  # its queues lack messages
            self._snapshot_routes.open(
                lambda: (
                    None
                    if membership.state
                    is ReplicaState.LEADER  # it replays what the set has not confirmed, too
                    else followed(opening.store, membership.origin, opening.replayed_end)
                )
            )
        self._life.supervise("snapshots", self._snapshot_routes.expire)
        registering = asyncio.ensure_future(registrations.run())
        try:
            if not await membership.lead(following.replayed):
                return False
        finally:
            registering.cancel()
            await asyncio.wait([registering])
            await following.close()
        opening.finish(membership.boots)
        if membership.takes_over:
            lock_file(opening.store).forget()
        self._is_recovered = True
        return True

    def _follow(self, opening: Opening, membership: "Membership") -> "FollowerService":
        """Return what this replica serves until it leads."""
        from broker_store.process.following.building import build_follower

        values = describe_values(self._settings, self._listeners.port, self._listeners.fast_port)
        # The leader's parts add their metrics when they are built.
        around = self._around(Metrics(), lambda: None, 0, None)
        return build_follower(
            around, opening, membership, self._guard, values, self._metrics, self._group_table(membership),
            self._listeners.admit,
        )  # fmt: skip

    def _around(
        self, metrics: Metrics, index_trouble: Callable[[], str | None], epoch: int, group: Group | None
    ) -> Surroundings:
        return Surroundings(
            self._settings, self._files, self._classes, metrics, self._clock.now_ms, self._hints, self._pool, self._address,
            index_trouble, self._snapshots, epoch, group, self._clients, self._listeners.slaves,
            None if self._membership is None else self._membership.repaired,
        )  # fmt: skip

    def _make_links_pool(
        self, on_lost: Callable[[Connection, str], None], limits: LinkLimits
    ) -> ConnectionPool:
        return self._make_pool(on_lost=on_lost, limits=limits)

    def _group_table(self, membership: "Membership") -> GroupTable:
        """Return the table of a replica that serves its group alone. It tells everybody else who leads, if it knows and may tell."""
        guard = self._guard

        def refusal() -> RefusedRequest:
            return not_leader(membership.leader_address() if guard is None else "")

        if guard is not None:
            return GroupTable(membership.commands(), refusal, guard.inner_door())
        tools = membership.report.tools(self._settings.cluster_name)
        return GroupTable({**tools, **membership.commands()}, refusal, None)

    def _build(self, opening: Opening) -> Built:
        settings, store, group = self._settings, opening.store, self._membership
        around = self._around(
            self._metrics,
            self._index_trouble,
            group.epoch if group is not None else 0,
            group.report if group is not None else None,
        )
        values = describe_values(settings, self._listeners.port, self._listeners.fast_port)
        config = BrokerConfig(values, DataVersionCounter(self._clock.now_ms))
        foundation = build_foundation(around, store, self._thread)
        in_loop = asyncio.get_running_loop().call_soon_threadsafe
        membership = self._membership
        flusher = membership or OwnDisk(store.log.sync, in_loop, store.environment.make_thread)
        earlier = None if membership is None else membership.checkpoints
        sending = Sending(
            store, self._classes, foundation, Turn.current().at_end, flusher, self._thread, earlier,
            fast_paths=self._fast_paths,
        )  # fmt: skip
        halves = build_halves(around, store, foundation, sending, config)
        watch_classes(self._metrics, self._classes, self._clock.now_ms)
        hooks = build_hooks(around, sending)
        relays = Relays()
        control, door = self._access_control(around, store, sending, relays)
        access = Access(around, store, sending, control)
        rights = DecisionRights(_everybody_may_send if door is None else door.may_send, relays)
        configuration = Configuration(around, store, foundation, sending, halves.group_records, config)
        rolls = access.roll, configuration.roll, halves.consuming.keeper.roll, halves.leasing.roll
        store.events.connect(listeners_of(around, store, foundation, halves, hooks, rolls))
        features = build_features(
            around, store, foundation, halves, self._thread, configuration, access, rights
        )
        return Built(foundation, halves, features, hooks, control, door, configuration)

    async def _serve_reads(self, built: Built, opening: Opening, slices: Slices) -> None:
        """Continue the rebuild and serve pulls of what is rebuilt."""
        table = CommandTable(self._classes, self._known_headers, built.door)
        table.add_all(rebuild_commands(built.commands(), opening.store.queues.find))
        self._listeners.admit(table)
        self._listeners.wait_for("rebuilding queues and index; pulls are served")
        await built.register()
        await self._recover(opening, slices, until_rebuild=False)

    async def _serve(self, built: Built, opening: Opening) -> None:
        sending, settings = built.halves.sending, self._settings
        table = CommandTable(self._classes, self._known_headers, built.door)
        commands = built.hooks.commands(built.commands())
        if self._membership is not None:
            commands = self._membership.guard(commands)
        table.add_all(commands)
        table.add_quick(sending.plain.take, sending.send_one)
        built.halves.consuming.start(was_stopped=opening.store.was_stopped)
        sending.start()
        if self._membership is not None and sending.appends.alone is not None:
            self._membership.answer_alone(sending.appends.alone.flushed)
        built.configuration.begin()
        self._start_loops(built, opening)
        if built.control is not None:
            begin_users(built.control, table)
        gc.collect()
        gc.freeze()
        self._listeners.admit(table)
        await built.register()
        if built.control is not None:
            self._listeners.wait_for("reading the users of the other stores")
            await settle_users(built.control, self._life.stopping, self._user_files)
        self._listeners.serve_slaves(opening.store.log)
        self._listeners.ready()
        _log.info(
            "ready",
            address=self._address,
            http_port=self._listeners.http.port,
            store=opening.store.directory,
            flush=settings.flush,
        )

    def _access_control(
        self, around: Surroundings, store: OpenedStore, sending: Sending, relays: Relays
    ) -> "tuple[AccessControl | None, Door | None]":
        """Return what knows the users, and the door of both ports. Without access control, load none of its code."""
        if self._guard is None:
            return None, None
        from broker_store.process.parts.access_control import control_of, door_of

        return control_of(self._guard, around, store, sending), door_of(self._guard, around, store, relays)

    def _start_loops(self, built: Built, opening: Opening) -> None:
        store, foundation = opening.store, built.foundation
        sending, consuming, care = built.halves.sending, built.halves.consuming, foundation.care
        origin = "" if self._membership is None else self._membership.origin
        self._snapshot_routes.open(lambda: served(store, origin))
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
        if self._membership is not None and self._membership.has_register_server:
            loops["place of the register"] = self._membership.keep_register_away
        if foundation.registration is not None:
            loops["registration"] = foundation.registration.run
        if self._guard is not None:
            loops["audit"] = self._guard.audit.run
        for name, loop in {**loops, **consuming.loops(), **all_loops(built.features)}.items():
            self._life.supervise(name, loop)

    async def _stop(self) -> None:
        """Stop accepting, answer held and running requests, flush, close the log."""
        membership, built = self._membership, self._built
        self._listeners.shut("stopping")
        self._snapshot_routes.shut()
        if membership is not None and not membership.has_ended:
            # A leader's last records are confirmed by its followers, which say so on its port.
            # Everybody else gets a follower's refusal, and waits for the next leader.
            self._listeners.admit(self._group_table(membership))
            membership.begin_stop(self._settings.drain_seconds)
        if built is not None and not self._has_ended:
            await built.close()
            if self._is_recovered:
                await built.halves.sending.drain(self._settings.drain_seconds)
        await self._listeners.leave_slaves()
        if membership is None:
            await self._listeners.close()
        await self._life.end_loops()
        if built is not None and self._is_recovered and not self._has_ended:
            await built.halves.sending.stop(built.configuration.save)
        elif membership is not None:
            await membership.leave()
        elif self._opening is not None:
            self._opening.abandon()
        if membership is not None:
            await self._listeners.close()
        await self._pool.close()
        if self._guard is not None:
            self._guard.audit.close()
        self._thread.close()

    @property
    def _has_ended(self) -> bool:
        """Whether the group has ended this life of a replica: it says nothing more."""
        return self._membership is not None and self._membership.has_ended

    def _not_ready(self) -> str | None:
        if self._built is None and self._membership is not None:
            if self._membership.is_copying:
                return None
            if self._membership.register_fault:
                return (
                    f"no leader is heard, and the register does not answer: {self._membership.register_fault}"
                )
        if not self._listeners.reason and self._built is not None:
            log = self._built.halves.sending.store.log
            if log.state is LogState.STOPPED:
                return f"the log is stopped: {log.stop_reason}; reads are served, restart to have it checked"
        return self._listeners.reason or None

    def _index_trouble(self) -> str | None:
        return None if self._is_recovered else "the index is being rebuilt"

    def _closed(self, peer: Peer) -> None:
        serving = self._built or self._following
        if serving is not None:
            serving.closed(peer)


def _everybody_may_send(_peer: object, _topic: str) -> bool:
    """Answer for a store without access control."""
    return True


def _resolve(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise StartRefused(f"advertised host {host!r} has no address: {error}") from error
