"""A group of replicas under virtual time and faults, all from one seed."""

import random
from collections.abc import Callable
from heapq import heappop, heappush

from group_ledger import Ledger
from group_node import REMOVED, Node
from group_profile import draw
from group_register import SimulatedRegister

from broker_store.replication.messages import Message
from broker_store.replication.states import ReplicaState
from broker_store.replication.steps import Received, ShipmentReceived

LIFE_MS = 60_000
FAST_MS = 5
FILL_MS = 6000
FILLED_EVERY = 5
"""In one life of so many disks are full now and then."""
ACKNOWLEDGES_WITHIN_MS = 15_000
WHOLE_WITHIN_MS = 25_000
NAMES = "abcdefgh"


class World:
    """`live()` runs the life and raises RuleBroken when a rule is broken."""

    def __init__(self, seed: int, nodes: int, life_ms: int = LIFE_MS) -> None:
        self._seed = seed
        self.random = random.Random(seed)
        self.profile = draw(self.random, nodes)
        self.now = 0
        self._queue: list[tuple[int, float, Callable[[], None]]] = []
        self._life_ms = life_ms
        self.steps = 0
        self.register = SimulatedRegister(self)
        self.ledger = Ledger(self)
        self.cut: set[tuple[str, str]] = set()
        self._touched: set[Node] = set()
        self._register_changed = False
        self._entries = 0
        self._states = 0
        self._replaced = 0
        self.lost, self.late, self.doubled = self.profile.lost, self.profile.late, self.profile.doubled
        self.register_lost, self.stale = self.profile.register_lost, self.profile.stale
        self._is_calm = False
        self.nodes = {name: Node(self, name, name == "a") for name in NAMES[:nodes]}

    # Time and chance

    def at(self, ms: int, act: Callable[[], None]) -> None:
        heappush(self._queue, (self.now + ms, self.random.random(), act))

    def drawn(self, mean_ms: int) -> int:
        """Return a time with this mean: most are short, some are long."""
        return 1 + int(self.random.expovariate(1 / mean_ms))

    def touched(self, node: Node) -> None:
        self._touched.add(node)

    def register_changed(self) -> None:
        self._register_changed = True

    # The network

    def deliver(
        self, sender: str, peer: str, message: Message | ShipmentReceived, data: list[int] | None
    ) -> None:
        if (sender, peer) in self.cut or self.random.random() < self.lost or peer not in self.nodes:
            return
        given = message if isinstance(message, ShipmentReceived) else Received(sender, message)
        for _ in range(2 if self.random.random() < self.doubled else 1):
            late = self.random.random() < self.late
            ms = self.drawn(self.profile.delay_ms) + (self.drawn(self.profile.late_ms) if late else 0)
            self.at(ms, lambda: self.nodes[peer].receive(given, data))

    # A life

    def live(self) -> None:
        for node in self.nodes.values():
            self.at(self.drawn(50), node.start)
        self.at(self.drawn(self.profile.append_ms), self._send)
        self.at(self.drawn(self.profile.fault_ms) + 2000, self._fault)
        if self.profile.retain_ms:
            self.at(self.drawn(self.profile.retain_ms), self._retain)
        if self._seed % FILLED_EVERY == FILLED_EVERY - 1:
            self.at(self.drawn(FILL_MS), self._fill)
        self._run(self._life_ms)
        self._end_faults()
        self._run_until(self._acknowledges, ACKNOWLEDGES_WITHIN_MS)
        self._run_until(self._is_whole, WHOLE_WITHIN_MS)

    def _run_until(self, condition: Callable[[], bool], within_ms: int) -> None:
        while not condition():
            self._run(self.now + 250)
            if self.now > self._life_ms + within_ms:
                self.ledger.fail(
                    f"not {condition.__name__} {within_ms} ms after the last fault: {self.picture()}"
                )

    def _run(self, until: int) -> None:
        queue = self._queue
        while queue[0][0] <= until:
            self.now, _, act = heappop(queue)
            act()
            self.steps += 1
            self._check()
        self.now = until

    def _check(self) -> None:
        if self._register_changed:
            self.ledger.check_members()
            self._register_changed = False
        leads = False
        for node in self._touched:
            self.ledger.check_member(node, self.register.newest)
            self.ledger.check_shown(node)
            leads = leads or (node.role is not None and node.role.leading is not None)
        if leads:
            self.ledger.check_leases()
        self._touched.clear()

    def _send(self) -> None:
        for node in self.nodes.values():
            if node.is_running and node.is_fit and node.role is not None and node.role.accepts_sends:
                count = self.random.randint(1, 3)
                node.append(list(range(self._entries, self._entries + count)))
                self._entries += count
        self.at(self.drawn(self.profile.append_ms), self._send)

    def new_state(self) -> int:
        """Return a new record of the state that outlives retention."""
        self._states += 1
        return REMOVED - self._states

    def _retain(self) -> None:
        for node in list(self.nodes.values()):
            node.retain()
        self.at(self.drawn(self.profile.retain_ms), self._retain)

    # Faults

    def _fault(self) -> None:
        if self._is_calm:
            return
        kinds, weights = zip(*self.profile.faults, strict=True)
        (kind,) = self.random.choices(kinds, weights)
        getattr(self, f"_{kind}")()
        calm = self.random.random() < self.profile.calm * 0.1
        self.at(self.drawn(self.profile.fault_ms) + (5000 if calm else 0), self._fault)

    def _any(self) -> Node:
        return self.random.choice([node for node in self.nodes.values() if not node.is_lost])

    def _leader(self) -> Node:
        leads = [
            node for node in self.nodes.values()
            if node.role is not None and node.role.state in {ReplicaState.LEADER, ReplicaState.PROMISED}
        ]  # fmt: skip
        return self.random.choice(leads) if leads else self._any()

    def _crash(self) -> None:
        self._crash_node(self._any())

    def _crash_leader(self) -> None:
        self._crash_node(self._leader())

    def _crash_node(self, node: Node) -> None:
        node.crash(power=self.random.random() < self.profile.power)
        self.at(self.drawn(self.profile.down_ms), node.start)

    def _power_cut(self) -> None:
        for node in self.nodes.values():
            node.crash(power=True)
            self.at(self.drawn(self.profile.down_ms), node.start)

    def _pause(self) -> None:
        self._pause_node(self._any())

    def _pause_leader(self) -> None:
        self._pause_node(self._leader())

    def _pause_node(self, node: Node) -> None:
        node.paused_until = max(node.paused_until, self.now + self.random.choice((200, 1200, 2500, 6000)))

    def _cut_links(self) -> None:
        ends = [*self.nodes, "register"]
        self._cut_for(
            {
                (self.random.choice(ends[:-1]), self.random.choice(ends))
                for _ in range(self.random.randint(1, 6))
            }
        )

    def _isolate_leader(self) -> None:
        name = self._leader().name
        out = {(name, other) for other in self.nodes}
        both = out | {(other, name) for other in self.nodes}
        links = self.random.choice((out, both, both | {(name, "register")}))
        self._cut_for(links)

    def _cut_for(self, links: set[tuple[str, str]]) -> None:
        self.cut |= links
        self.at(self.random.choice((300, 1300, 3000, 8000)), lambda: self.cut.difference_update(links))

    def _resign(self) -> None:
        """A leader hands over, and ends its process some time later."""
        node = self._leader()
        if node.is_running and node.role is not None and node.role.leading is not None:
            node.resign()

    def _fill(self) -> None:
        """A disk is full for a time."""
        if self._is_calm:
            return
        node = self.random.choice((self._any(), self._leader()))
        if node.is_fit:
            node.set_fitness(False)
            self.at(self.random.choice((3000, 10_000, 30_000)), lambda: node.set_fitness(True))
        self.at(self.drawn(FILL_MS), self._fill)

    def _register_away(self) -> None:
        self.register.away_until = self.now + self.random.choice((500, 3000, 8000))

    def _freeze_reads(self) -> None:
        """The server of the register that a machine reads from is cut off from the others, and answers."""
        node = self.random.choice((self._any(), self._leader()))
        self.register.freeze(node.name, self.random.choice((1000, 3000, 8000)))

    def _replace(self) -> None:
        """A machine is lost for ever, never that of the newest leader; a new one with an empty disk and a new name joins."""
        newest, node = self.register.newest, self._any()
        if newest is None or node.name == newest.leader or self._replaced >= 6:
            return
        node.crash(power=True)
        node.is_lost = True
        self._replaced += 1
        name = f"{node.name}{self._replaced}"
        self.nodes[name] = Node(self, name, is_first=False)
        self.at(self.drawn(self.profile.down_ms), self.nodes[name].start)

    def _end_faults(self) -> None:
        self._is_calm = True
        self.lost = self.late = self.doubled = self.register_lost = self.stale = 0
        self.register.end_faults()
        self.cut.clear()
        for node in self.nodes.values():
            node.paused_until = min(node.paused_until, self.now)
            node.set_fitness(True)
            self.at(self.drawn(FAST_MS), node.start)

    def _acknowledges(self) -> bool:
        return self.ledger.acknowledged_at > self._life_ms

    def _is_whole(self) -> bool:
        newest = self.register.newest
        return newest is not None and set(newest.members) == {
            node.name for node in self.nodes.values() if not node.is_lost
        }

    def picture(self) -> str:
        """Say what each replica is."""
        return f"{self.register.newest} " + "; ".join(
            f"{node.name} {node.role.state.value if node.role else 'down'} end {len(node.log)} durable {node.durable}"
            f" fence {node.kept.fence} lost {node.is_lost}"
            for node in self.nodes.values()
        )
