"""One machine of a simulated group: a disk that loses what is not synced, a clock of its own rate, and the real role on it."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from group_profile import BEAT_MS, GRACE_MS, LEASE_MS, LOOK_MS

from broker_store.replication.messages import Beat
from broker_store.replication.replica import Replica, RoleSettings
from broker_store.replication.role import Role
from broker_store.replication.steps import (
    Acknowledge,
    Appended,
    BecomeLeader,
    CutLog,
    EndProcess,
    EndReason,
    Fitness,
    Input,
    Kept,
    LeaderBegins,
    LogCut,
    Output,
    Persist,
    Persisted,
    ReadRegister,
    Removed,
    Resign,
    Send,
    Ship,
    ShipmentReceived,
    Synced,
    Tick,
    WriteRegister,
    WriteShipment,
)

if TYPE_CHECKING:
    from group_world import World

BATCH_MAX = 200
SEGMENT = 16
REMOVED = -1
"""An entry of a log that begins later. Records of state are lower, those of clients are higher."""
RESEND_MS = 300
LED_MS_MIN = 1000
"""A leader that is not fit leads at least for so long."""
WAKE_MS = 20


class Node:
    def __init__(self, world: "World", name: str, is_first: bool) -> None:
        self.world, self.name, self._is_first = world, name, is_first
        self.log: list[int] = []
        """From position 0 on; what is below `first` is deleted."""
        self.first = self.first_durable = 0
        self.durable = 0
        self.kept = Kept()
        self.confirm = 0
        """As of the last checkpoint."""
        self.life = 0
        self.role: Role | None = None
        self.paused_until = 0
        self.is_lost = False
        self.is_fit = True
        self._begin_life()

    # Life and death

    def _begin_life(self) -> None:
        random = self.world.random
        self.life += 1
        self._rate = 1 + random.uniform(-1, 1) * self.world.profile.drift
        self._zero = random.randint(0, 1 << 20)
        self._persists: list[Persist] = []
        self._persisted_until = 0
        self._cutting: int | None = None
        self._syncing = 0
        self._is_syncing = False
        self._shipped: dict[str, tuple[Any, int, int]] = {}
        self._leader_begins = 0

    @property
    def is_running(self) -> bool:
        return self.role is not None and self.world.now >= self.paused_until

    def clock(self) -> int:
        return self._zero + int(self.world.now * self._rate)

    def start(self) -> None:
        """Start the process: a start syncs the log that it finds."""
        if self.role is not None or self.is_lost:
            return
        if self.kept.is_void and not self._clear():
            self.world.at(self.world.drawn(100), self.start)
            return
        self._begin_life()
        self.paused_until = 0
        self.durable = len(self.log)
        self.world.touched(self)
        settings = RoleSettings(
            self.name,
            "g",
            self.world.profile.min_in_sync,
            LEASE_MS,
            GRACE_MS,
            BEAT_MS,
            LOOK_MS,
            self._is_first,
        )
        life = f"{self.name}-{self.life}"
        self.role = Role(
            Replica(settings, self.kept, self.first, self.durable, self.confirm, life, self.clock())
        )
        if not self.is_fit:
            self.take(self.life, Fitness(False))
        self._tick_later(1)

    def set_fitness(self, is_fit: bool) -> None:
        """Let the replica be unfit, as with a full disk, or fit again."""
        self.is_fit = is_fit
        self.take(self.life, Fitness(is_fit))

    def _hand_over(self, life: int) -> None:
        """Let a fit member lead, as a store does that is not fit."""
        leading = self.role.leading if self.role is not None else None
        if life != self.life or self.is_fit or leading is None or leading.has_resigned or not self.is_running:
            return
        successor = leading.fit_successor(self.role.replica.now)
        if successor and self.clock() - leading.since >= LED_MS_MIN:
            self.world.ledger.handed_over(self.name, successor)
            self.resign(successor)

    def resign(self, successor: str = "") -> None:
        """Hand over, and end the process some time later."""
        life = self.life
        self.take(life, Resign(successor))

        def end() -> None:
            if self.life == life and self.role is not None:
                self.crash(power=False)
                self.world.at(self.world.drawn(self.world.profile.down_ms), self.start)

        self.world.at(self.world.drawn(400), end)

    def _clear(self) -> bool:
        """Remove a void log. A power cut in the middle leaves any beginning of it, still void."""
        if self.world.random.random() < 0.3:
            del self.log[self.world.random.randint(0, len(self.log)) :]
            self.durable = self.confirm = 0
            return False
        begin = self.kept.begin
        self.log = [REMOVED] * begin
        self.first = self.first_durable = self.durable = self.confirm = begin
        self.kept = replace(self.kept, is_void=False)
        self.world.ledger.began_again += 1
        return True

    def crash(self, power: bool) -> None:
        """Kill the process; a power cut also loses what is not synced. Writes that are under way happen or not."""
        if self.role is None:
            return
        random = self.world.random
        if self._cutting is not None and random.random() < 0.5:
            self._cut(self._cutting)
        for persist in self._persists:
            if random.random() < 0.5:
                break
            self.kept = persist.kept
        if power:
            del self.log[random.randint(self.durable, len(self.log)) :]
            self.first = random.choice((self.first_durable, self.first))
        self.role = None
        self.life += 1
        self.world.touched(self)

    # Inputs

    def later(self, ms: int, given: Input) -> None:
        life = self.life
        self.world.at(ms, lambda: self.take(life, given))

    def take(self, life: int, given: Input, shipped: list[int] | None = None) -> None:
        """Pass a fact to the role, when the process runs again."""
        if life != self.life or self.role is None:
            return
        world = self.world
        if world.now < self.paused_until:
            wait = self.paused_until - world.now + world.random.randint(0, WAKE_MS)
            world.at(wait, lambda: self.take(life, given, shipped))
            return
        for output in self.role.step(self.clock(), given):
            if self.role is None:
                break
            self._do(output, shipped)
        world.touched(self)

    def receive(self, given: Input, shipped: list[int] | None) -> None:
        self.take(self.life, given, shipped)

    def append(self, entries: list[int]) -> None:
        """Take a send of a client."""
        assert self.role is not None
        self.log += entries
        self.take(self.life, Appended(len(self.log)))
        self._sync()
        for peer in self._shipped:
            self._ship(peer)

    def _tick_later(self, ms: int) -> None:
        life = self.life

        def tick() -> None:
            if life == self.life:
                self.take(life, Tick())
                self._hand_over(life)
                self._tick_later(max(1, int(BEAT_MS * self.world.random.uniform(0.8, 1) / self._rate)))

        self.world.at(ms, tick)

    # Outputs

    def _do(self, output: Output, shipped: list[int] | None) -> None:
        world, life = self.world, self.life
        match output:
            case Send():
                world.deliver(self.name, output.peer, output.message, None)
            case WriteShipment():
                assert shipped is not None
                self.log += shipped
                self._sync()
            case Persist():
                self._persist(output)
            case CutLog():
                self._cutting = output.at
                world.at(world.drawn(world.profile.persist_ms), lambda: self._end_cut(life, output.at))
            case ReadRegister() | WriteRegister():
                world.register.ask(self.name, life, output, lambda given: self.take(life, given))
            case Ship():
                self._order_shipping(output)
            case _:
                self._notify(output)

    def _notify(self, output: Output) -> None:
        world, life = self.world, self.life
        match output:
            case Acknowledge():
                world.ledger.acknowledged(self, output.up_to)
                self._note_confirm()
            case LeaderBegins():
                self._leader_begins = output.first
                world.at(world.drawn(100), lambda: self._delete_as_the_leader(life))
            case BecomeLeader():
                world.ledger.leads(self, output.record)
            case EndProcess():
                self._end(output.reason)
            case _:
                self._note_confirm()

    def _note_confirm(self) -> None:
        if self.role is not None and self.world.random.random() < 0.2:
            self.confirm = min(self.role.replica.confirm, self.durable)

    def _end(self, reason: EndReason) -> None:
        if reason not in {EndReason.DEPOSED, EndReason.BEGINS_AGAIN}:
            self.world.ledger.fail(f"{self.name} ends: {reason.value}")
        self.crash(power=False)
        self.world.at(self.world.drawn(100), self.start)

    # Retention

    def retain(self) -> None:
        """As a leader, append the state record again that must not go, or delete what is confirmed below a segment of choice."""
        role, random = self.role, self.world.random
        if role is None or role.leading is None or self.paused_until > self.world.now:
            return
        confirm = role.leading.gate.confirm or 0
        first = random.randint(0, max(confirm - 1, 0)) // SEGMENT * SEGMENT
        if first <= self.first:
            return
        if not self.has_state(first, confirm):
            if role.accepts_sends:
                self.append([self.world.new_state()])
            return
        self._delete(first)

    def has_state(self, first: int, end: int) -> bool:
        """Whether a record of the state that outlives retention lies there."""
        return any(entry < REMOVED for entry in self.log[first:end])

    def _delete_as_the_leader(self, life: int) -> None:
        if life == self.life and self.role is not None:
            limit = min(self._leader_begins, self.confirm - 1)  # it is as of the last checkpoint
            self._delete(max(limit, 0) // SEGMENT * SEGMENT)

    def _delete(self, first: int) -> None:
        if first > self.first:
            self.first_durable, self.first = self.first, first
            self.world.ledger.deleted(self)
            self.take(self.life, Removed(first))

    # The disk

    def _persist(self, persist: Persist) -> None:
        world, life = self.world, self.life
        self._persists.append(persist)
        self._persisted_until = max(self._persisted_until, world.now) + world.drawn(world.profile.persist_ms)
        world.at(self._persisted_until - world.now, lambda: self._end_persist(life, persist))

    def _end_persist(self, life: int, persist: Persist) -> None:
        if life == self.life:
            self._persists.remove(persist)
            self.kept = persist.kept
            self.take(life, Persisted(persist.number))

    def _end_cut(self, life: int, at: int) -> None:
        if life == self.life:
            self._cut(at)
            self.world.touched(self)
            self.take(life, LogCut(at))

    def _cut(self, at: int) -> None:
        self._cutting = None
        del self.log[at:]
        self.durable = min(self.durable, at)
        self._syncing += 1  # a sync of before reports nothing more
        self._is_syncing = False

    def _sync(self) -> None:
        if not self._is_syncing and self.durable < len(self.log):
            self._is_syncing = True
            life, number, end = self.life, self._syncing, len(self.log)
            self.world.at(
                self.world.drawn(self.world.profile.sync_ms), lambda: self._end_sync(life, number, end)
            )

    def _end_sync(self, life: int, number: int, end: int) -> None:
        if life == self.life and number == self._syncing:
            self.durable, self._is_syncing = end, False
            self.world.touched(self)
            self._sync()
            self.take(life, Synced(end))

    # Shipping: one batch at a time to each follower, from the end that it reported

    def _order_shipping(self, order: Ship) -> None:
        session, position, at = self._shipped.get(order.peer, (None, -1, -RESEND_MS))
        if session != order.session or position != order.position:
            at = -RESEND_MS
        self._shipped[order.peer] = (order.session, order.position, at)
        self._ship(order.peer)

    def _ship(self, peer: str) -> None:
        session, position, at = self._shipped[peer]
        now, role = self.world.now, self.role
        if role is None or role.leading is None or not self.first <= position < len(self.log):
            return
        if now - at < RESEND_MS:
            return
        self._shipped[peer] = (session, position, now)
        entries = self.log[position : position + BATCH_MAX]
        head: Beat = role.leading.beat(session)
        shipment = ShipmentReceived(self.name, head, position, position + len(entries))
        self.world.deliver(self.name, peer, shipment, entries)
