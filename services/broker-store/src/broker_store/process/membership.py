"""A store as a replica of its broker group: what its role decides, carried to the opening, the group commit and the ports.

A follower is a store whose opening has not ended: it replays what the group confirms, and ends its opening when it leads. A leader's group commit
answers what the group has confirmed: this is its flusher. Another leader ends the process; nothing in memory of an old leader survives.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from broker_store.commit.flusher import Synced
from broker_store.log.commit_log.sync_thread import Failed
from broker_store.log.errors import DamagedRecord, LogError, LogStopped
from broker_store.log.recovery.recovery import CHUNK_BYTES
from broker_store.opening.checkpoints import Checkpoints
from broker_store.opening.opening import Opening
from broker_store.ports import Commands, Peer
from broker_store.process.forgetting import forget_before
from broker_store.process.group.fitness import GroupFitness
from broker_store.process.group.gap_wait import GapWait
from broker_store.process.group.grants import with_lease
from broker_store.process.group.kept import open_kept
from broker_store.process.group.lead_moves import check_move
from broker_store.process.group.lost_records import LostRecords
from broker_store.process.group.newest_reads import with_newest_reads
from broker_store.process.group.refilling import Refilling
from broker_store.process.group.register import GroupRegister
from broker_store.process.group.repairs import repairs_of
from broker_store.process.group.report import GroupReport, Position
from broker_store.process.group.settings import CannotMove, GroupSettings, role_of
from broker_store.replication.frames import CODES
from broker_store.replication.kept_file import KeptFile
from broker_store.replication.links import Links, MakePool
from broker_store.replication.register.port import RegisterAway, RegisterUnusable
from broker_store.replication.register.record import Registered
from broker_store.replication.replica_log import ReplicaLog
from broker_store.replication.retention import RETENTION_SECONDS, FollowerRetention
from broker_store.replication.shell import Shell, ShellCalls
from broker_store.replication.shipping import ShippingSettings
from broker_store.replication.states import ReplicaState
from broker_store.replication.steps import EndReason
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_chassis.process import Life
from gantry_chassis.start_refusal import RestartNeeded, StartRefused
from gantry_link.connections.turn import Turn
from gantry_wire.frames.command import Command

HANDOVER_SECONDS_MAX = 2.0
"""Longest time for which a leader that stops waits for the next one. Nothing is lost without it: the others notice its silence."""
REPLAY_SECONDS = 0.01
"""Pause between two replays of a follower: nobody waits for them, and they gather more."""
REPLAY_BYTES = 16 * 1024
"""What a follower that keeps up replays without a pause, some 0.3 ms of work: a shipment that arrives meanwhile waits for it."""
BACKLOG_BYTES = 1024 * 1024
"""A follower that has to replay more is not held up by small pieces."""
PLACE_SECONDS = 5.0
"""Between two looks at which NATS server leads the register."""
REGISTER_SECONDS = 3.0
"""An operation of the register without an answer for so long counts as lost."""

_log = get_logger()


class Membership:
    """One life of this store in its group, from its recovered log on."""

    holds_all = True

    def __init__(
        self,
        settings: GroupSettings,
        opening: Opening,
        thread: Workers,
        kept: KeptFile,
        links: Links,
        register: GroupRegister,
        life: Life,
        *,
        fast_paths: bool,
    ) -> None:
        """`thread` does the work of checkpoints."""
        store = opening.store
        assert isinstance(store.log, ReplicaLog)
        self.settings = settings
        self._opening, self._log, self._links = opening, store.log, links
        self._register, self._life = register, life
        self.checkpoints = Checkpoints(store, lambda: opening.replayed_ms, lambda: False, thread)
        self._retention = FollowerRetention(
            store.log, thread, lambda: store.checkpoint.position, partial(forget_before, store)
        )
        loop = asyncio.get_running_loop()
        self._shell = Shell(
            role_of(settings, store.boot_count), list(settings.others), store.log, kept, register.register,
            ShellCalls(
                life.environment, links.send, links.renew, Turn.current().at_end, loop.call_later, loop.call_soon_threadsafe, self,
                fast_paths,
            ),
            shipping=ShippingSettings(read_bytes_per_second=store.settings.copy_bytes_per_second),
            register_seconds=REGISTER_SECONDS,
        )  # fmt: skip
        self.repaired = repairs_of(self._shell.repairing)
        self.report = GroupReport(settings, self._shell, self._log, life.environment.steady, self._position)
        lost = LostRecords(store)
        self._wake = asyncio.Event()
        self.refilling = Refilling(
            store, lost, self._shell, settings, thread, self._end_life, lambda: self._on_synced is not None
        )  # fmt: skip
        self._gap_wait = GapWait(self.refilling, self._wake.set, self._pass_on)
        self.fitness = GroupFitness(
            store, lost, self._shell, thread, lambda: self._on_synced is not None, self.move, self._gap_wait, self._shell.now_ms
        )  # fmt: skip
        self._limit = self._log.confirm
        """Everything below is confirmed."""
        newest = kept.kept.newest
        self._takes_over = newest is not None and newest.leader != settings.name
        self._leads: Registered | None = None
        self._lead_from = 0
        self._on_synced: Synced | None = None
        self._on_failed: Failed | None = None
        self._on_flushed: Synced | None = None
        self._is_over, self._has_given_up = False, False
        self._giving_up: asyncio.TimerHandle | None = None
        """Of a stop under way."""
        self._end: Exception | None = None
        """Why the process ends, unless it was asked to stop."""
        self._is_cut_off, self._successor = False, ""
        self._handing_over: asyncio.Event | None = None

    # --- following -----------------------------------------------------------------------------------------

    async def lead(self, on_replayed: Callable[[], None]) -> bool:
        """Follow until this replica leads, its log is replayed to the end and confirmed there. False: asked to stop.

        `on_replayed` is called after each piece that was replayed.
        """
        self._links.start(self._shell.lost)
        with suppress(OSError):  # the loop says so
            await self.fitness.begin()
            await self.refilling.begin()
        self._shell.start()
        stop = asyncio.ensure_future(self._life.stopping.wait())
        beside = [
            asyncio.ensure_future(self._take_checkpoints()), asyncio.ensure_future(self._delete_old())
        ]  # fmt: skip
        try:
            while not await self._replayed_all(on_replayed):
                if self._life.stopping.is_set():
                    return False
                waiting = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait([waiting, stop], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                self._wake.clear()
                await asyncio.sleep(0 if self._leads else REPLAY_SECONDS)
        finally:
            stop.cancel()
            for task in beside:
                task.cancel()
            await self.checkpoints.end()
        return True

    async def _replayed_all(self, on_replayed: Callable[[], None]) -> bool:
        """Replay what is confirmed, a leader everything. Say whether this replica may serve."""
        end = self._log.written_end if self._leads else self._limit
        is_backlog = end - self._opening.replayed_end > BACKLOG_BYTES
        try:
            for _ in self._opening.replay(end, CHUNK_BYTES if is_backlog else REPLAY_BYTES):
                if self._leads is None:  # else held pulls would show what is not confirmed
                    on_replayed()
                await asyncio.sleep(0)
                if self._life.stopping.is_set():
                    return False
        except DamagedRecord as damage:
            if await self._shell.repairing.want(damage.position):
                self._wake.set()
            else:
                self.failed(damage)
            return False
        except (LogError, OSError) as error:
            self.failed(error)
            return False
        return self._leads is not None and self._limit >= self._lead_from and self._gap_wait.may_serve

    async def _take_checkpoints(self) -> None:
        settings, checkpoints = self._opening.store.settings, self.checkpoints
        steady = self._life.environment.steady
        taken_s = steady()
        while True:
            await asyncio.sleep(min(settings.checkpoint_seconds, 0.25))
            if self._leads is not None:
                return
            is_due = steady() - taken_s >= settings.checkpoint_seconds
            if not (
                checkpoints.has_work and (is_due or checkpoints.behind_bytes >= settings.checkpoint_bytes)
            ):
                continue
            taken_s = steady()
            try:
                await checkpoints.take()
            except (OSError, LogStopped) as error:
                _log.warning("checkpoint failed, the last one stays valid", reason=str(error))

    async def _delete_old(self) -> None:
        """Delete, every few seconds, what the leader has deleted, until this replica leads and judges by itself."""
        while self._leads is None:
            await asyncio.sleep(RETENTION_SECONDS)
            try:
                await self._retention.delete()
            except (OSError, LogStopped) as error:
                _log.warning("segments are deleted later", reason=str(error))

    @property
    def has_register_server(self) -> bool:
        """Whether a server leads the register, so that its place matters."""
        return self._register.leave_own_machine is not None

    async def keep_register_away(self) -> None:
        """Keep the lead of the register on another machine, every few seconds, while this replica leads. Supervised.

        Losing this machine then costs no election of NATS, which takes longer than the takeover.
        """
        place, leave = "", self._register.leave_own_machine
        while leave is not None:
            try:
                found = await leave()
            except (RegisterAway, RegisterUnusable):  # `register_fault` shows it
                found = place
            if found != place:
                _log.info("the register is led by another server", server=found)
            place = found
            await asyncio.sleep(PLACE_SECONDS)

    @property
    def may_answer_alone(self) -> Callable[[], bool] | None:
        """See Flusher: with its lease, which no other leader has."""
        return (lambda: self._shell.may_grant) if self.settings.is_async else None

    def answer_alone(self, flushed: Synced) -> None:
        """Report from now on what this leader's own log has durably."""
        self._on_flushed = flushed

    @property
    def takes_over(self) -> bool:
        """Whether another replica has led since this one did."""
        return self._takes_over

    @property
    def boots(self) -> int:
        """The boot count of the group: higher than that of any leader before."""
        assert self._leads is not None
        return self._leads.boots

    @property
    def followed_epoch(self) -> int:
        """The epoch of the leader that this replica follows, 0 while it follows none, or leads."""
        newest = self._shell.role.replica.kept.newest
        follows = newest is not None and newest.leader != self.settings.name and self._leads is None
        return newest.epoch if newest is not None and follows else 0

    @property
    def epoch(self) -> int:
        """The epoch of the leader that this replica knows, its own if it leads. 0: none."""
        newest = self._shell.role.replica.kept.newest
        return newest.epoch if newest else 0

    @property
    def origin(self) -> str:
        """What names the group, and so the log that its replicas share. Empty while no record of the register is known."""
        newest = self._shell.role.replica.kept.newest
        return newest.origin if newest else ""

    # --- a flusher of the group commit ---------------------------------------------------------------------

    def request(self) -> None:
        """See Flusher: ship and sync what was written. Where all of it is confirmed, say so: an entry that wrote nothing waits, too."""
        if self._has_given_up:
            self._refuse()
            return
        self._shell.appended()
        if self._on_synced is not None and self._limit >= self._log.written_end:
            asyncio.get_running_loop().call_soon(self._on_synced, self._limit)

    def start(self, on_synced: Synced, on_failed: Failed) -> None:
        """See Flusher."""
        self._on_synced, self._on_failed = on_synced, on_failed

    async def stop(self) -> None:
        """See Flusher: a leader hands over, so that nobody waits for its silence; then the replica leaves its group."""
        leading = self._shell.role.leading
        if leading is not None and not self.has_ended:
            self._handing_over = handed_over = asyncio.Event()
            self._shell.resign(self._successor)
            with suppress(TimeoutError):
                async with asyncio.timeout(HANDOVER_SECONDS_MAX if leading.has_resigned else 0):
                    await handed_over.wait()
        await self.close()

    def move(self, successor: str) -> None:
        """Let another replica lead, `successor` or the best one; then start again as a follower. Raises CannotMove."""
        leading = self._shell.role.leading
        if leading is None or self._on_synced is None or self._end is not None:
            raise CannotMove(
                f"{self.settings.name} does not lead; ask the leader: {self.leader_address() or 'there is none now'}"
            )
        check_move(leading, self.settings.name, successor, self._shell.now_ms())
        self._successor = successor
        self._end = RestartNeeded(f"the lead moves to {successor or 'another replica'}")
        self._life.stop()

    def _pass_on(self, successor: str) -> None:
        """Let another replica lead in place of this one, which leads and serves nothing."""
        self._shell.resign(successor)
        self._end_life(RestartNeeded(f"this log has lost records: {successor} leads"))

    def begin_stop(self, seconds: float) -> None:
        """Begin an orderly stop. What the group has not confirmed after these seconds is refused as unknown, and so is what comes later."""
        self._giving_up = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._has_given_up = True
        self._refuse()

    def _refuse(self) -> None:
        if self._on_failed is not None:
            self._on_failed(LogStopped("the group has not confirmed it, and this replica ends"))

    async def close(self) -> None:
        """Leave the group. Repeated calls are safe."""
        if not self._is_over:
            self._is_over = True
            if self._giving_up is not None:
                self._giving_up.cancel()
            await self._shell.close()
            await self._links.close()
            await self._register.connection.close()

    async def leave(self) -> None:
        """Leave the group, and the directory as after an orderly stop; after the end of this life as after a crash."""
        await self.close()
        if self.has_ended:
            self._opening.abandon()
        else:
            await self.checkpoints.close()
            self._log.close()

    # --- the end -------------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether this life is over at once: nothing more is answered, and nothing is written."""
        return self._is_cut_off

    def raise_end(self) -> None:
        """Raise why this life is over, if it is: RestartNeeded, or StartRefused where an operator decides. Otherwise do nothing."""
        if self._end is not None:
            raise self._end

    # --- what others say -----------------------------------------------------------------------------------

    def commands(self) -> Commands:
        """Return the table entries of the messages between replicas."""
        return {int(code): ("replication", self._receive) for code in CODES}

    def _receive(self, _peer: Peer, command: Command) -> None:
        self._shell.receive(command.code, command.body)

    def guard(self, commands: Commands) -> Commands:
        """Return the commands of a leader: it grants only with its lease, and hears its followers."""
        guarded = with_lease(commands, lambda: self._shell.may_grant)
        return {**with_newest_reads(guarded, lambda: self._shell.may_grant), **self.commands()}

    @property
    def accepts_sends(self) -> bool:
        """Whether enough replicas are in sync."""
        return self._shell.role.accepts_sends

    def leader_address(self) -> str:
        """Return host:port of the leader that this replica knows, empty for none or itself."""
        newest = self._shell.role.replica.kept.newest
        return self.settings.others.get(newest.leader, "") if newest else ""

    @property
    def register_fault(self) -> str:
        """Why the register of the group does not answer; empty while it does."""
        return self._shell.register.fault

    def _position(self) -> Position:
        return Position(self._limit, self._on_synced is not None, self.refilling.lost_bytes)

    @property
    def knows_all(self) -> bool:
        """Whether this replica has replayed, in this life, everything that a leader had confirmed."""
        caught_up = self._shell.role.following.has_caught_up
        return caught_up and self._opening.replayed_end >= self._limit

    @property
    def is_copying(self) -> bool:
        """Whether this replica has what its leader confirms."""
        role = self._shell.role
        return role.leading is None and role.following.is_copying

    # --- what the role decides -----------------------------------------------------------------------------

    def acknowledged(self, up_to: int) -> None:
        """See ShellEvents."""
        self._limit = max(self._limit, up_to)
        if self._on_synced is not None:
            self._on_synced(up_to)
        else:
            self._wake.set()

    def shown(self, up_to: int) -> None:
        """See ShellEvents."""
        self._limit = max(self._limit, min(up_to, self._log.written_end))
        self._wake.set()

    def synced_here(self, up_to: int) -> None:
        """See ShellEvents."""
        if self._on_flushed is not None:
            self._on_flushed(up_to)

    def leader_begins_at(self, position: int) -> None:
        """See ShellEvents."""
        self._retention.leader_begins_at(position)

    def leads(self, record: Registered, start: int) -> None:
        """See ShellEvents."""
        _log.info("this replica leads", epoch=record.epoch, start=start, members=list(record.members))
        self._leads, self._lead_from = record, start
        self._wake.set()

    def follows(self, record: Registered, *, counted: bool) -> None:
        """See ShellEvents."""
        self._takes_over = True
        _log.info("this replica follows", leader=record.leader, epoch=record.epoch, is_in_sync=counted)

    def ended(self, reason: EndReason) -> None:
        """See ShellEvents."""
        if self._handing_over is not None and reason is EndReason.DEPOSED:
            self._handing_over.set()
            return
        said = f"this replica ends: {reason.value}"
        is_restart = reason in {EndReason.DEPOSED, EndReason.BEGINS_AGAIN}
        self._end_life(RestartNeeded(said) if is_restart else StartRefused(said))

    def failed(self, error: Exception) -> None:
        """See ShellEvents."""
        if self._on_failed is not None:
            self._on_failed(error if isinstance(error, LogStopped) else LogStopped(str(error)))
        self._end_life(error)

    def stuck(self, peer: str, error: Exception) -> None:
        """See ShellEvents."""
        _log.warning("a replica cannot get what it needs", replica=peer, reason=str(error))

    def _end_life(self, why: Exception) -> None:
        if not self._is_cut_off:
            self._end, self._is_cut_off = why, True
            if self._giving_up is not None:  # nobody answers what the stop waits for
                self._give_up()
            _log.warning("this replica ends", reason=str(why))
            self._wake.set()
            self._life.stop()

    @property
    def state(self) -> ReplicaState:
        """What this replica is for its group."""
        return self._shell.role.state


def open_membership(
    life: Life,
    make_pool: MakePool,
    open_register: Callable[[int], GroupRegister],
    group: GroupSettings,
    opening: Opening,
    thread: Workers,
    *,
    fast_paths: bool,
) -> Membership:
    """Return the membership of a store whose log is recovered. Raises StartRefused where the promises of an earlier life cannot be read.

    `open_register` takes the version of the register's record that this replica knows, 0 for none.
    """
    store = opening.store
    kept = open_kept(store.files, store.directory)
    newest = kept.kept.newest
    register = open_register(newest.version if newest else 0)
    links = Links(group.others, make_pool)
    return Membership(group, opening, thread, kept, links, register, life, fast_paths=fast_paths)
