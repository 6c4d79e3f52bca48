"""Shells of one group over simulated disks, a network and a register in memory, under a clock that the test moves."""

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from heapq import heappop, heappush
from random import Random

from replica_disk import LOG, Confirms, open_log, same, send

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from broker_store.replication.copying import clear_void
from broker_store.replication.kept_file import KeptFile
from broker_store.replication.register.memory_register import Faults, MemoryRegister, Records
from broker_store.replication.replica import RoleSettings
from broker_store.replication.retention import FollowerRetention
from broker_store.replication.shell import Shell, ShellCalls
from broker_store.replication.shipping import ShippingSettings
from broker_store.replication.states import ReplicaState
from gantry_chassis.machine.environment import machine

GROUP = "broker-a"
STEP_MS = 10
SHIPPING = ShippingSettings(
    window_bytes=20_000, shipments_max=16, gather_bytes=4000, read_bytes=4000, read_bytes_per_second=10_000_000,
    resend_ms=600, stuck_ms=500,
)  # fmt: skip


class Timer:
    def __init__(self, call):
        self.call = call

    def cancel(self):
        self.call = lambda: None


class Clock:
    def __init__(self):
        self.ms = 1_000
        self._timers = []
        self._numbers = 0
        self.violations = []
        """What callbacks of the loop raised: the loop only logs it."""
        asyncio.get_running_loop().set_exception_handler(self._raised)

    def _raised(self, _loop, context):
        self.violations.append(context)

    def later(self, seconds, call):
        self._numbers += 1
        timer = Timer(call)
        heappush(self._timers, (self.ms + seconds * 1000, self._numbers, timer))
        return timer

    async def run(self, ms):
        until = self.ms + ms
        while self.ms < until:
            assert not self.violations, self.violations[0]
            self.ms = min(self.ms + STEP_MS, until)
            while self._timers and self._timers[0][0] <= self.ms:
                heappop(self._timers)[2].call()
                await settle()
            await settle()


async def settle():
    """Let everything happen that needs no time."""
    for _ in range(12):
        await asyncio.sleep(0)


class SlowWorkers:
    """Threads of one machine: each call takes some time of the clock, and none ends after a crash."""

    def __init__(self, node):
        self.node = node
        self.busy_until = 0

    def run(self, function, *arguments):
        node, life = self.node, self.node.life
        future = asyncio.get_running_loop().create_future()
        clock = node.group.clock
        self.busy_until = max(self.busy_until, clock.ms) + node.group.random.randrange(node.group.disk_ms + 1)

        def work():
            if node.life != life or node.shell is None:
                return
            try:
                future.set_result(function(*arguments))
            except Crashed:
                node.crash(power=True)
            except Exception as error:  # noqa: BLE001 - as a thread passes it on
                future.set_exception(error)

        clock.later((self.busy_until - clock.ms) / 1000, work)
        return future

    def close(self, *, wait=True): ...


class SlowThread:
    """A thread in steps of one machine: each step takes some time of the clock, and none ends after a crash."""

    def __init__(self, node, step):
        self.node, self.life, self.step = node, node.life, step
        self.is_started = self.is_woken = self.is_busy = False

    def start(self):
        self.is_started = True
        self.run()

    def wake(self):
        self.is_woken = True
        self.run()

    def stop(self): ...

    def run(self):
        if self.is_started and self.is_woken and not self.is_busy:
            self.is_woken, self.is_busy = False, True
            self.work_after(self.node.group.random.randrange(self.node.group.disk_ms + 1) / 1000)

    def work_after(self, seconds):
        self.node.group.clock.later(seconds, self.work)

    def work(self):
        if self.node.life != self.life or self.node.shell is None:
            return
        again = None
        with self.node.until_power_fails():
            again = self.step()
        if again is not None:
            self.work_after(again)
        else:
            self.is_busy = False
            self.run()


class Node:
    """One machine, and what the store above its shell does."""

    def __init__(self, group, name):
        self.group, self.name = group, name
        self.files, self.confirms, self.faults = SimulatedFiles(), Confirms(), Faults()
        self.shell = None
        self.life = 0
        self.endings = []
        self.failures = []
        self.led = []
        self.renewed = []
        self.waiting = []
        """Start, end and bytes of writes that are not acknowledged."""
        self.deleting = []
        self.checkpointed = 0
        """What the last checkpoint covers: no power cut takes that back."""

    def start(self):
        if self.shell is not None:
            return
        self.life += 1
        self.waiting = []
        kept = KeptFile(self.files, "/store")
        if clear_void(self.files, "/store", kept):
            self.confirms.noted = self.checkpointed = 0
            self.confirms.deleted = None  # `gantry/deleted` goes with the rest
        self.log = open_log(self.files, self.confirms, begin=kept.kept.begin)
        workers = SlowWorkers(self)
        self.retention = FollowerRetention(self.log, workers, lambda: self.checkpointed, self.deleted)
        known = kept.kept.newest.version if kept.kept.newest else 0
        group = self.group
        environment = replace(
            machine(), steady=lambda: group.clock.ms / 1000, workers=lambda _count, _name: SlowWorkers(self),
            make_thread=lambda step, _name: SlowThread(self, step), secret_bytes=group.random.randbytes,
        )  # fmt: skip
        calls = ShellCalls(
            environment, self.send, self.renewed.append, self.at_turn_end, group.clock.later,
            lambda call, *arguments: call(*arguments), self, (group.seed + ord(self.name)) % 2 == 0,
        )  # fmt: skip
        settings = RoleSettings(self.name, GROUP, group.min_in_sync, 400, 600, 100, 300, self.name == "a")
        register = MemoryRegister(group.records, self.faults, known)
        peers = [name for name in group.nodes if name != self.name]
        self.shell = Shell(
            settings, peers, self.log, kept, register, calls, shipping=SHIPPING, register_seconds=0.5
        )
        self.shell.start()

    def crash(self, *, power):
        """Kill the process. What a power cut leaves of the confirm offset may be old."""
        if self.shell is None:
            return
        self.shell._end()
        self.shell = None
        for task in self.deleting:
            task.cancel()
        random = self.group.random
        if power:
            self.files = self.files.crash_state(30, random.randrange(1 << 30))
            self.confirms.noted = random.choice((self.checkpointed, self.confirms.noted))
        else:
            self.files = self.files.killed()

    @contextmanager
    def until_power_fails(self):
        """The simulated disk may fail the power in the middle of it."""
        try:
            yield
        except Crashed:
            self.crash(power=True)

    def at_turn_end(self, call):
        life = self.life

        def end():
            if self.life == life and self.shell is not None:
                with self.until_power_fails():
                    call()

        asyncio.get_running_loop().call_soon(end)

    @property
    def is_leader(self):
        return self.shell is not None and self.shell.role.state is ReplicaState.LEADER

    @property
    def accepts(self):
        return self.is_leader and self.shell.role.accepts_sends

    def append(self, *bodies):
        start = self.log.written_end
        end = send(self.log, *bodies)
        data = b"".join(
            segment.file.pread(
                min(end, segment.end) - max(start, segment.start), max(start, segment.start) - segment.start
            )
            for segment in self.log.segments
            if segment.end > start and segment.start < end
        )
        self.waiting.append((start, end, data))
        self.shell.appended()

    def has(self, start, data):
        """Whether the log holds these bytes, or retention deleted them."""
        size, first = self.log.settings.segment_bytes, self.log.min_position
        at, data = max(start, first), data[max(first - start, 0) :]
        while data:
            room = size - at % size
            piece, data = data[:room], data[room:]
            if not self.files.content(f"{LOG}/{at - at % size:020d}")[at % size :].startswith(piece):
                return False
            at += len(piece)
        return at <= self.log.written_end

    def send(self, peer, code, bodies):
        self.group.deliver(self.name, peer, code, bodies)
        return True

    # What the shell reports

    def synced_here(self, up_to):
        assert up_to <= self.log.durable_end

    def leader_begins_at(self, position):
        self.retention.leader_begins_at(position)
        self.delete()

    def delete(self):
        """Delete what a follower may, in the background."""
        if self.shell is not None and not self.is_leader:
            task = asyncio.ensure_future(self.retention.delete())
            self.deleting.append(task)
            task.add_done_callback(lambda _: task in self.deleting and self.deleting.remove(task))

    async def deleted(self, minimum):
        assert minimum <= self.group.begins, f"{self.name} deletes what its leader has"

    def acknowledged(self, up_to):
        if up_to > self.log.visible_below:
            self.log.set_visible(up_to, up_to)
        while self.waiting and self.waiting[0][1] <= up_to:
            start, _, data = self.waiting.pop(0)
            self.group.acked.append((start, data))

    def shown(self, up_to):
        assert up_to <= self.log.written_end

    def leads(self, record, start):
        self.led.append(record)
        assert start == self.log.written_end
        for position, data in self.group.acked:
            assert self.has(position, data), (
                f"{self.name} leads {record} without {len(data)} acknowledged bytes at {position}"
            )

    def follows(self, record, *, counted): ...

    def ended(self, reason):
        self.endings.append(reason)
        self.crash(power=False)
        self.group.clock.later(0.05, self.start)

    def failed(self, error):
        self.failures.append(error)
        self.crash(power=False)

    def stuck(self, peer, error):
        raise AssertionError(f"{self.name} cannot ship to {peer}") from error


class Group:
    def __init__(self, names, seed=0, min_in_sync=None, disk_ms=5):
        self.random, self.clock, self.disk_ms = Random(seed), Clock(), disk_ms
        self.seed = seed
        self.min_in_sync = min_in_sync or len(names) // 2 + 1
        self.records = Records(GROUP)
        self.acked = []
        self.cut = set()
        self.lost = 0.0
        self.begins = 0
        """The highest position at which the log of a leader began."""
        self.nodes = {name: Node(self, name) for name in names}
        self._sent = 0
        self._arrivals = {}

    def deliver(self, sender, peer, code, bodies):
        node = self.nodes[peer]
        if (sender, peer) in self.cut or self.random.random() < self.lost:
            return
        life = node.life

        def arrive():
            if node.life == life and node.shell is not None:
                with node.until_power_fails():
                    for body in bodies:
                        node.shell.receive(code, body)

        at = max(self._arrivals.get((sender, peer), 0), self.clock.ms + self.random.randrange(3))
        self._arrivals[sender, peer] = at  # one connection keeps the order
        self.clock.later((at - self.clock.ms) / 1000, arrive)

    async def until(self, condition, seconds=20):
        end = self.clock.ms + seconds * 1000
        while not condition():
            assert self.clock.ms < end, f"not within {seconds} s: {self}"
            await self.clock.run(STEP_MS)

    @property
    def leader(self):
        found = [node for node in self.nodes.values() if node.is_leader]
        return max(found, key=lambda node: node.shell.role.leading.epoch, default=None)

    def sends(self, count=1):
        """Write records at every replica that accepts sends."""
        for node in self.nodes.values():
            if node.accepts:
                with node.until_power_fails():
                    for _ in range(count):
                        self._sent += 1
                        node.append(b"%d:" % self._sent + bytes(self.random.randrange(900)))

    def retain(self, segments_max=1000):
        """Delete what the leader may of its first segments, after a checkpoint of all replicas."""
        for node in self.nodes.values():
            if node.shell is not None:
                node.checkpointed = node.confirms.noted
                node.delete()
        leader = self.leader
        if leader is None:
            return
        log = leader.log
        with leader.until_power_fails():
            while segments_max and log.segments and log.segments[0].end <= log.removable_end:
                log.drop_first_segment()
                self.begins = max(self.begins, log.min_position)
                log.remove_dropped()
                segments_max -= 1

    def is_whole(self):
        """Whether all replicas run, follow one leader, are in the set, and have all of its log durably."""
        leader = self.leader
        if leader is None or not leader.accepts:
            return False
        ends = {node.log.durable_end for node in self.nodes.values() if node.shell is not None}
        recorded = leader.shell.role.leading.gate.recorded
        return ends == {leader.log.written_end} and recorded == set(self.nodes) and not leader.waiting

    def check_identical(self):
        one, *others = self.nodes.values()
        for other in others:
            assert other.log.written_end == one.log.written_end
            first = max(one.log.min_position, other.log.min_position)
            assert same(one.files, other.files, one.log.written_end, first)
        for start, data in self.acked:
            assert all(node.has(start, data) for node in self.nodes.values())

    def __str__(self):
        return f"{self.records.stored[-1:]} " + "; ".join(
            f"{node.name} {node.shell.role.state.value if node.shell else 'down'} end {node.log.written_end}"
            f" durable {node.log.durable_end} confirm {node.log.confirm} {node.endings} {node.failures}"
            for node in self.nodes.values()
        )
