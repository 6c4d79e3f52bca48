"""Carries out what a role orders, in sequence, and feeds it with what happens. Lives in the loop; the disk works in threads.

Inputs wait for each other: what an order causes is taken after the orders before it. What must be durable is written in threads:

- `Persist`: one write at a time; of those that wait only the newest is written.
- `CutLog`: no sync that began before a cut reports after it (`ReplicaLog.cuts`).
- syncs: by a `SyncThread`; those of a follower by the loop, while its disk is quick (`QuickSync`): its leader waits for each of them. The role
  decides what they confirm.

A failing disk, or bytes that do not fit, end the shell: `ShellEvents.failed`. Nothing more goes out then, and the group's other replicas decide.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.commit_log.quick_sync import QuickSync
from broker_store.log.commit_log.sync_thread import InLoop, SyncThread
from broker_store.log.errors import DamagedRecord, LogError, LogStopped
from broker_store.replication.arriving import Arriving, Shipment
from broker_store.replication.frames import Part, decode_body, encode_message, encode_repair, encode_shipment
from broker_store.replication.fresh_bytes import Piece
from broker_store.replication.kept_file import KeptFile
from broker_store.replication.messages import Beat, HaveBytes, Hello, Session, WantBytes
from broker_store.replication.register.port import Register
from broker_store.replication.register.record import Registered
from broker_store.replication.register_calls import RegisterCalls
from broker_store.replication.repairing import RepairCalls, Repairing
from broker_store.replication.replica import Replica, RoleSettings
from broker_store.replication.replica_log import ReplicaLog
from broker_store.replication.role import Role
from broker_store.replication.shipping import Shipping, ShippingCalls, ShippingSettings
from broker_store.replication.steps import (
    Acknowledge,
    Appended,
    BecomeFollower,
    BecomeLeader,
    CutLog,
    EndProcess,
    EndReason,
    Fitness,
    Input,
    LeaderBegins,
    LogCut,
    Output,
    Persist,
    Persisted,
    ReadRegister,
    Received,
    Removed,
    Resign,
    Send,
    Ship,
    ShipmentReceived,
    Show,
    Synced,
    Tick,
    WriteRegister,
    WriteShipment,
)  # fmt: skip
from gantry_chassis.machine.environment import Environment
from gantry_wire.codes import GantryCode

LIFE_BYTES = 12
UNHEARD_MAX = 3
"""Questions without an answer, after which a connection counts as dead."""
TICK_SHARE = 0.8
"""Of a beat: a tick comes at least every beat, also when the loop is late."""


class ShellEvents(Protocol):
    """What a store does on a role's decisions. Called in the loop; may call the shell."""

    def acknowledged(self, up_to: int) -> None:
        """Answer the sends below, and show them: they are confirmed."""
        ...

    def shown(self, up_to: int) -> None:
        """Show readers of a follower everything below."""
        ...

    def synced_here(self, up_to: int) -> None:
        """Take that this replica's own log is durable below. The group may not have confirmed it."""
        ...

    def leader_begins_at(self, position: int) -> None:
        """Delete, as a follower, what ends at or below this position: the leader has deleted it (`FollowerRetention`)."""
        ...

    def leads(self, record: Registered, start: int) -> None:
        """Finish recovery to the end, open the ports, register everywhere. From now on the store may append."""
        ...

    def follows(self, record: Registered, *, counted: bool) -> None:
        """Copy from this leader."""
        ...

    def ended(self, reason: EndReason) -> None:
        """End the process."""
        ...

    def failed(self, error: Exception) -> None:
        """End the process: its disk failed, or what a leader ships is not of this log."""
        ...

    def stuck(self, peer: str, error: Exception) -> None:
        """Report that the bytes which a follower needs cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class ShellCalls:
    """What a shell calls."""

    environment: Environment
    send: Callable[[str, int, Sequence[bytes]], bool]
    """Queues one-way requests with a code and these bodies to a peer: all of them, or none (False). They may get lost."""
    renew: Callable[[str], None]
    """Connects again to a peer, which does not hear what is sent to it."""
    at_turn_end: Callable[[Callable[[], None]], None]
    call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle]
    in_loop: InLoop
    events: ShellEvents
    fast_paths: bool
    """Whether the loop may sync shipments (`QuickSync`). Otherwise the thread makes all syncs."""


class _Reached(NamedTuple):
    """A sync of the log: the position below which everything is durable, and the number of cuts before it."""

    end: int
    cuts: int


class Shell:
    """One life of a replica on one store directory, after a void one was cleared, the log was opened, and its content synced."""

    def __init__(
        self,
        settings: RoleSettings,
        peers: Sequence[str],
        log: ReplicaLog,
        kept: KeptFile,
        register: Register,
        calls: ShellCalls,
        *,
        shipping: ShippingSettings,
        register_seconds: float,
    ) -> None:
        """`peers`: names of the group's other replicas; others are not heard."""
        environment = calls.environment
        self._name, self._peers, self._beat_seconds = settings.name, frozenset(peers), settings.beat_ms / 1000
        self._log, self._kept, self._calls, self._events = log, kept, calls, calls.events
        life = environment.secret_bytes(LIFE_BYTES).hex()
        replica = Replica(
            settings, kept.kept, log.min_position, log.written_end, log.confirm, life, self.now_ms()
        )  # fmt: skip
        self.role = Role(replica)
        self.register = RegisterCalls(
            register,
            self._step,
            register_seconds,
            may_bootstrap=settings.bootstrap and kept.kept.newest is None,
        )
        self._disk = environment.workers(1, "replica")
        self._syncs = SyncThread(self._sync, calls.in_loop, environment.make_thread)
        quick = QuickSync(
            self._syncs, self._sync_if_free, self._have_synced, environment.steady, is_on=calls.fast_paths
        )
        self._sync_shipments_bound = partial(self._sync_shipments, quick)
        self._reads = environment.workers(1, "replica-read")
        self.shipping = Shipping(
            log,
            ShippingCalls(
                self._head, self._ship, calls.at_turn_end, calls.call_later, self.now_ms, self._reads, self._stuck
            ),
            shipping,
        )  # fmt: skip
        self.repairing = Repairing(
            log,
            RepairCalls(
                self.role.sources, self._send_repair, lambda: Session(life, replica.new_number()), self.now_ms, self._disk, self._fail
            ),
        )  # fmt: skip
        self._arriving = Arriving()
        self._unheard: dict[str, int] = {}
        self._inputs: deque[tuple[Input, Shipment | None]] = deque()
        self._is_stepping = False
        self._is_over = False
        self._persisting: Persist | None = None
        self._next_persist: Persist | None = None
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Take part in the group."""
        self._syncs.start(self._have_synced, self._fail)
        self._tick()

    async def close(self) -> None:
        """Stop without a word to anybody. Waits for what threads do."""
        self._end()
        await self.register.close()
        await asyncio.to_thread(self._syncs.stop)
        for workers in (self._reads, self._disk):
            workers.close()

    @property
    def may_grant(self) -> bool:
        """Say whether the replica may grant what lives in memory now (rule 8)."""
        return not self._is_over and self.role.may_grant(self.now_ms())

    # --- what happens --------------------------------------------------------------------------------------

    def appended(self) -> None:
        """Take what the leader's group commit has written. Call it after each write, in the same turn."""
        self._step(Appended(self._log.written_end))
        self.shipping.appended()
        self._request_sync()

    def resign(self, successor: str = "") -> None:
        """Let another member lead, `successor` if it can. The store has stopped before. `ended` follows when one does."""
        self._step(Resign(successor))

    def fitness(self, *, is_fit: bool) -> None:
        """Take whether this replica is fit to lead."""
        if is_fit is not self.role.replica.is_fit:
            self._step(Fitness(is_fit))

    def receive(self, code: int, body: bytes) -> None:
        """Take a private request of a peer. Raises MalformedReplication. What an unknown peer says is dropped."""
        sender, decoded = decode_body(code, body)
        if sender not in self._peers or self._is_over:
            return
        if isinstance(decoded, Hello):
            self._count_unheard(sender)
        else:
            self._unheard.pop(sender, None)
        if isinstance(decoded, WantBytes):
            self.repairing.asked(sender, decoded)
            return
        if isinstance(decoded, HaveBytes):
            self.repairing.received(sender, decoded)
            return
        if not isinstance(decoded, Part):
            self._step(Received(sender, decoded))
            return
        shipment = self._arriving.take(sender, decoded)
        if shipment is not None:
            given = ShipmentReceived(sender, shipment.head, shipment.position, shipment.end)
            self._step(given, shipment)

    def _count_unheard(self, peer: str) -> None:
        """Count a question that met no answer: one that this replica asks again, or hears again although it answers."""
        count = self._unheard.get(peer, 0) + 1
        if count > UNHEARD_MAX:
            count = 0
            self._calls.renew(peer)
        self._unheard[peer] = count

    def lost(self, peer: str) -> None:
        """Take that the connection to a peer ended: what was on its way is lost."""
        self._arriving.forget(peer)
        self.shipping.lost(peer)

    def _tick(self) -> None:
        if self._is_over:
            return
        if (
            self._log.state is LogState.STOPPED
        ):  # also by a write of the group commit, after which it answers nothing
            self._fail(LogStopped(self._log.stop_reason))
            return
        self._ticker = self._calls.call_later(self._beat_seconds * TICK_SHARE, self._tick)
        if self._log.min_position > self.role.replica.first:
            self._step(Removed(self._log.min_position))
        self._step(Tick())
        self.shipping.tick()
        self.repairing.tick()

    def _step(self, given: Input, shipment: Shipment | None = None) -> None:
        """Take an input, after those before it."""
        if self._is_over:
            return
        self._inputs.append((given, shipment))
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._inputs:
                now, shipped = self._inputs.popleft()
                for order in self.role.step(self.now_ms(), now):
                    self._do(order, shipped)
        except (LogError, OSError) as error:
            self._fail(error)
        finally:
            self._is_stepping = False

    # --- orders --------------------------------------------------------------------------------------------

    def _do(self, order: Output, shipment: Shipment | None) -> None:
        match order:
            case Send():
                code, body = encode_message(self._name, order.message)
                self._calls.send(order.peer, code, (body,))
                if isinstance(order.message, Hello):
                    self._count_unheard(order.peer)
            case WriteShipment():
                assert shipment is not None
                self._log.append_shipped(shipment.position, shipment.end, shipment.data)
                self._calls.at_turn_end(self._sync_shipments_bound)
            case Ship():
                self.shipping.order(order)
            case Persist():
                self._persist(order)
            case CutLog():
                self._cut(order)
            case ReadRegister():
                self.register.read(order)
            case WriteRegister():
                self.register.write(order)
            case _:
                self._notify(order)

    def _notify(
        self, order: Acknowledge | Show | LeaderBegins | BecomeLeader | BecomeFollower | EndProcess
    ) -> None:
        match order:
            case Acknowledge():
                self._note_confirm(order.up_to)
                self._events.acknowledged(order.up_to)
            case Show():
                self._note_confirm(order.up_to)
                self._events.shown(order.up_to)
            case LeaderBegins():
                self._events.leader_begins_at(order.first)
            case BecomeLeader():
                self._events.leads(order.record, order.start)
            case BecomeFollower():
                self._events.follows(order.record, counted=order.counted)
            case EndProcess():
                self._end()
                self._events.ended(order.reason)

    def _note_confirm(self, up_to: int) -> None:
        """Note in the log what is confirmed and durable here: a cut below is refused, and damage below is no end of the log."""
        confirm = min(up_to, self._log.durable_end)
        if confirm > self._log.confirm:
            self._log.set_confirm(confirm)

    def _persist(self, order: Persist) -> None:
        if self._persisting is not None:
            self._next_persist = order
            return
        self._persisting = order
        written = self._disk.run(self._kept.write, order.kept)
        written.add_done_callback(lambda done: self._have_persisted(order, done))

    def _have_persisted(self, order: Persist, done: asyncio.Future[None]) -> None:
        self._persisting = None
        if self._has_failed(done):
            return
        following, self._next_persist = self._next_persist, None
        if following is not None:
            self._persist(following)
        self._step(Persisted(order.number))

    def _cut(self, order: CutLog) -> None:
        cut = self._disk.run(self._log.cut_back, order.at)
        cut.add_done_callback(lambda done: self._have_cut(order.at, done))

    def _have_cut(self, at: int, done: asyncio.Future[None]) -> None:
        if self._has_failed(done):
            return
        self._step(LogCut(at))
        self._request_sync()  # the cut made everything below durable; the role has not heard of it

    def _request_sync(self) -> None:
        self._syncs.request()

    def _sync_shipments(self, quick: QuickSync[_Reached]) -> None:
        """Sync the shipments of this turn."""
        if self._is_over:
            return
        try:
            quick.request()
        except LogStopped as error:
            self._fail(error)

    def _sync(self) -> _Reached:
        """Sync the log, in the thread."""
        cuts = self._log.cuts
        return _Reached(self._log.sync(), cuts)

    def _sync_if_free(self) -> _Reached | None:
        """Sync the log, in the loop, unless a thread does."""
        cuts = self._log.cuts
        end = self._log.sync_if_free()
        return None if end is None else _Reached(end, cuts)

    def _have_synced(self, reached: _Reached) -> None:
        if self._is_over or reached.cuts != self._log.cuts:
            return
        self._step(Synced(reached.end))
        if not self._is_over:
            self._events.synced_here(reached.end)

    def _send_repair(self, peer: str, message: WantBytes | HaveBytes) -> None:
        if not self._is_over:
            code, body = encode_repair(self._name, message)
            self._calls.send(peer, code, (body,))

    def _stuck(self, peer: str, error: Exception) -> None:
        """Repair what a follower needs and the files do not have; report where that does not succeed."""
        if self._is_over:
            return
        if not isinstance(error, DamagedRecord):
            self._events.stuck(peer, error)
            return

        def repaired(done: asyncio.Future[bool]) -> None:
            if self._is_over:
                return
            if done.result():
                self.shipping.read_again()
            else:
                self._events.stuck(peer, error)

        self.repairing.want(error.position).add_done_callback(repaired)

    # --- parts ---------------------------------------------------------------------------------------------

    def _head(self, session: Session) -> Beat:
        assert self.role.leading is not None
        return self.role.leading.beat(session)

    def _ship(self, peer: str, head: Beat, piece: Piece) -> bool:
        leading = self.role.leading
        if self._is_over or leading is None or not leading.hears_enough:
            return False
        bodies = tuple(encode_shipment(self._name, head, piece.position, piece.end, piece.data))
        return self._calls.send(peer, GantryCode.REPLICA_SHIPMENT, bodies)

    def now_ms(self) -> int:
        """Return the time of the steady clock that the role is stepped by."""
        return int(self._calls.environment.steady() * 1000)

    def _has_failed(self, done: asyncio.Future[None]) -> bool:
        """Say whether nothing may follow: the work of a thread failed, or the shell is over."""
        if self._is_over or done.cancelled():
            return True
        error = done.exception()
        if isinstance(error, Exception):
            self._fail(error)
        elif error is not None:
            raise error
        return error is not None

    def _fail(self, error: Exception) -> None:
        if not self._is_over:
            self._end()
            self._events.failed(error)

    def _end(self) -> None:
        """Do nothing more."""
        self._is_over = True
        self.repairing.close()
        self._inputs.clear()
        if self._ticker is not None:
            self._ticker.cancel()
