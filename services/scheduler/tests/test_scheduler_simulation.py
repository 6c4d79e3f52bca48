"""The scheduler's cores against a simulated store and clock: killed, replaced and cut off from answers at any step.

Replay a failing seed with SEED=<number> and this file. `-m soak` runs thousands more.
"""

import os
import random

import pytest
from simulated_store import LEVEL_MS, SimulatedStore

from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from scheduler.delivering.decisions import Then, cancel, deliver, judge, move
from scheduler.index.due_index import DueIndex
from scheduler.index.entries import TIMER, entry_of, queue_of, scan_items, source_of
from scheduler.index.known_offsets import KnownOffsets, QueueState, compare
from scheduler.index.store_clock import StoreClock


class Scheduler:
    """One process. Its memory dies with it; the next one may continue with its file."""

    def __init__(self, store, steady, kept=()):
        self.store, self.epoch = store, store.claim()
        self.clock = StoreClock()
        self.clock.heard(store.now_ms, steady)
        self.due_queues = {
            False: DueIndex(horizon_ms=3000, near_max=20, load_max=5),
            True: DueIndex(horizon_ms=3000, near_max=20),
        }
        self.far = []
        self.next = {key: store.cursor(key) for key in store.queues}
        self.known = {key: self.resume(key, kept) for key in store.queues}
        for index in self.due_queues.values():
            index.far_added(sum(self.due_queues[row[2]] is index for row in self.far))

    def resume(self, key, kept):
        state = QueueState(self.store.cursor(key), len(self.store.queues[key]), self.store.ranges(key))
        rows = {row[1].offset: row for row in kept if row[1].source == source_of(*key)}
        compared = compare(sorted(rows), state)
        self.far += [row for offset, row in rows.items() if offset not in compared.dead]
        return KnownOffsets(compared.known)

    def read(self, key, steady):
        offset, count = self.known[key].next_range(self.next[key])
        data, following = self.store.records(key, offset, min(count, 4))
        source = source_of(*key)
        for item in scan_items(data):
            if not self.known[key].holds(item[0]):
                entry = entry_of(item, source, LEVEL_MS)
                due_queue = source == TIMER
                if not self.due_queues[due_queue].arm(entry, self.now(due_queue, steady)):
                    self.far.append((entry.due_ms, entry, due_queue))
        self.next[key] = following

    def now(self, due_queue, steady):
        return self.clock.wall_ms(steady) if due_queue else self.clock.now_ms(steady)

    def load(self, steady):
        for due_queue, index in self.due_queues.items():
            asked = index.wants(self.now(due_queue, steady))
            if asked is not None:
                mine = sorted(
                    (row for row in self.far if row[2] == due_queue and row[0] <= asked.until_ms),
                    key=lambda row: row[:1],
                )
                taken = mine[: asked.count_max]
                self.far = [row for row in self.far if row not in taken]
                index.loaded([(at, entry) for at, entry, _ in taken], asked.count_max)

    def deliver(self, due_queue, steady, *, answer_is_lost):
        index = self.due_queues[due_queue]
        batch = index.take_due(self.now(due_queue, steady), 3)
        for source in {entry.source for entry in batch}:
            entries = [entry for entry in batch if entry.source == source]
            results = self.store.settle(queue_of(source), self.epoch, list(map(deliver, entries)))
            for n, entry in enumerate(entries):
                if results is None or answer_is_lost:
                    self.back(due_queue, entry, steady, 50)
                    continue
                verdict = judge(results[n].status, "", self.now(due_queue, steady) - entry.due_ms, 10**12)
                if verdict.then is Then.DONE:
                    index.decided(entry.key)
                else:
                    self.clock.was_early()
                    self.back(due_queue, entry, steady, verdict.wait_ms)

    def back(self, due_queue, entry, steady, wait_ms):
        at = int(self.now(due_queue, steady) + wait_ms) + 1
        if self.due_queues[due_queue].put_back(entry.key, at, "error") is not None:
            self.far.append((at, entry, due_queue))

    def order(self, number, decide):
        """Carry out an order on the known messages; return the results."""
        uniq = b"U%d" % number
        found = [entry for index in self.due_queues.values() for entry in index.find(uniq)]
        found += [entry for _, entry, _ in self.far if entry.uniq == uniq]
        results = []
        for entry in found:
            answers = self.store.settle(queue_of(entry.source), self.epoch, [decide(entry)])
            results += answers or []
        return results


class Run:
    """One seed: the requests, and the checks after every step."""

    def __init__(self, seed):
        self.random, self.store, self.steady = random.Random(seed), SimulatedStore(), 100.0
        self.sent, self.cancelled, self.moved, self.files = 0, set(), {}, []
        self.schedulers = [Scheduler(self.store, self.steady)]

    def step(self):
        choice, one = self.random.random(), self.random.choice(self.schedulers)
        key = self.random.choice(list(self.store.queues))
        if choice < 0.25:
            level = None if key[0] == TIMER_TOPIC else key[1]
            self.store.send(self.sent, level, self.store.now_ms + self.random.randint(-100, 9000))
            self.sent += 1
        elif choice < 0.45:
            one.read(key, self.steady)
        elif choice < 0.75:
            one.load(self.steady)
            one.deliver(self.random.random() < 0.5, self.steady, answer_is_lost=self.random.random() < 0.2)
        elif choice < 0.9:
            self.pass_time(self.random.randint(1, 800))
        elif choice < 0.95 and self.sent:
            self.order(one)
        elif choice < 0.97:
            self.schedulers = [
                *self.schedulers[-1:],
                Scheduler(self.store, self.steady, self.kept()),
            ]  # the older one is now fenced
        elif choice < 0.98:
            self.schedulers = [Scheduler(self.store, self.steady, self.kept())]  # killed
        elif choice < 0.99:
            self.store.now_ms += 3_600_000  # the wall clock steps forward
        else:
            self.store.wall_behind_ms = self.random.choice([0, 2000])

    def kept(self):
        """Return what the next scheduler finds on disk: nothing, or a current or older file of either."""
        self.files.append(list(self.random.choice(self.schedulers).far))
        return self.random.choice([(), self.files[-1], self.random.choice(self.files)])

    def order(self, one):
        number = self.random.randrange(self.sent)
        if self.random.random() < 0.5:
            results = one.order(number, cancel)
            if any(result.status == "settled" for result in results):
                self.cancelled.add(number)
        else:
            at = self.store.now_ms + self.random.randint(0, 5000)
            if any(result.status == "settled" for result in one.order(number, lambda entry: move(entry, at))):
                self.moved[number] = at

    def pass_time(self, ms):
        self.store.now_ms += ms
        self.steady += ms / 1000
        for one in self.schedulers:
            if self.random.random() < 0.7:
                one.clock.heard(self.store.now_ms, self.steady, self.store.now_ms - self.store.wall_behind_ms)

    def check(self):
        numbers = [number for number, _, _ in self.store.delivered]
        assert len(numbers) == len(set(numbers)), "delivered twice"
        assert not self.cancelled & set(numbers), "cancelled and delivered"
        assert all(now >= due for _, due, now in self.store.delivered), "early"

    def finish(self):
        """Without further faults every message is delivered or cancelled."""
        self.store.wall_behind_ms = 0
        last = Scheduler(self.store, self.steady)
        self.schedulers = [last]
        for _ in range(400):
            self.store.now_ms += 500
            self.steady += 0.5
            last.clock.heard(self.store.now_ms, self.steady, self.store.now_ms)
            for key in self.store.queues:
                last.read(key, self.steady)
            for due_queue in (False, True):
                last.load(self.steady)
                last.deliver(due_queue, self.steady, answer_is_lost=False)
        self.check()
        numbers = {number for number, _, _ in self.store.delivered}
        assert numbers | self.cancelled == set(range(self.sent)), "lost"


def simulate(seed):
    run = Run(seed)
    try:
        for _ in range(300):
            run.step()
            run.check()
        run.finish()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return run


def test_kills_lost_answers_and_clock_steps_never_lose_repeat_or_hasten_a_message():
    if "SEED" in os.environ:
        simulate(int(os.environ["SEED"]))
        return
    runs = [simulate(seed) for seed in range(60)]
    assert sum(len(run.store.delivered) for run in runs) > 500
    assert sum(len(run.cancelled) for run in runs) > 5
    assert sum(len(run.moved) for run in runs) > 5


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_thousands_of_seeds():
    for seed in range(5000):
        simulate(seed)


def test_the_simulated_store_decides_once_and_not_early():
    store = SimulatedStore()
    epoch = store.claim()
    store.send(0, level=0)
    one = Scheduler(store, 0.0)
    one.read((SCHEDULE_TOPIC, 0), 0.0)
    (entry,) = one.due_queues[False].near.values()
    assert store.settle((SCHEDULE_TOPIC, 0), epoch, [deliver(entry)]) is None
    assert store.settle((SCHEDULE_TOPIC, 0), one.epoch, [deliver(entry)])[0].status == "early"
    store.now_ms += 1000
    assert store.settle((SCHEDULE_TOPIC, 0), one.epoch, [deliver(entry)])[0].status == "settled"
    assert store.settle((SCHEDULE_TOPIC, 0), one.epoch, [deliver(entry)])[0].status == "already"
