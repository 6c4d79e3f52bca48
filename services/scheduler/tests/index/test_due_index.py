"""The near end: nothing early, nothing twice, nothing lost between near, far and in flight."""

from heapq import heappop, heappush

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from schedule_entries import entry

from scheduler.index.due_index import DueIndex


def test_due_messages_come_in_time_order_and_never_early():
    index = DueIndex()
    for key, due in ((1, 300), (2, 100), (3, 200), (4, 100)):
        assert index.arm(entry(key, due), 0)
    assert index.next_ms == 100
    assert index.take_due(99, 10) == []
    assert [one.key for one in index.take_due(200, 10)] == [2, 4, 3]
    assert [one.key for one in index.take_due(1000, 10)] == [1]


def test_a_failed_message_returns_at_its_time_and_is_counted():
    index = DueIndex()
    index.arm(entry(1, 100), 0)
    index.take_due(100, 1)
    assert index.put_back(1, 600, "notWritable") is None
    assert index.failures[1] == (1, "notWritable")
    assert index.take_due(599, 1) == []
    assert [one.key for one in index.take_due(600, 1)] == [1]
    index.decided(1)
    assert not index.failures
    assert len(index) == 0


def test_a_message_decided_meanwhile_is_not_taken():
    index = DueIndex()
    index.arm(entry(1, 100, b"id"), 0)
    index.arm(entry(2, 100, b"id"), 0)
    assert {one.key for one in index.find(b"id")} == {1, 2}
    index.decided(1)
    assert [one.key for one in index.find(b"id")] == [2]
    assert [one.key for one in index.take_due(100, 5)] == [2]
    assert [one.key for one in index.find(b"id")] == [2]


def test_far_messages_are_loaded_before_they_are_due():
    index = DueIndex(horizon_ms=1000)
    assert not index.arm(entry(1, 5000), 0)
    assert index.wants(0) is None
    asked = index.wants(4100)
    assert asked.until_ms >= 5000
    assert index.wants(4100) is None  # one load at a time
    index.loaded([(5000, entry(1, 5000))], asked.count_max)
    assert len(index) == 1
    assert [one.key for one in index.take_due(5000, 5)] == [1]


def test_a_flood_shortens_the_horizon_and_loses_no_message():
    index = DueIndex(horizon_ms=10_000, near_max=10)
    far = [one for one in (entry(n, 9000) for n in range(50)) if not index.arm(one, 0)]
    assert len(index.near) == 10
    assert index.far_count == len(far) == 40
    assert not index.is_full


class AnyOrder(RuleBasedStateMachine):
    """Arms, fails, decides and loads in any order, beside a caller that keeps the far messages."""

    def __init__(self):
        super().__init__()
        self.index = DueIndex(horizon_ms=100, near_max=6, load_max=3)
        self.far, self.waiting, self.taken = [], {}, {}
        self.now, self.count = 0, 0

    @rule(ahead=st.integers(-50, 400))
    def arm(self, ahead):
        self.count += 1
        one = entry(self.count, max(self.now + ahead, 0))
        self.waiting[one.key] = one
        if not self.index.arm(one, self.now):
            heappush(self.far, (one.due_ms, one))

    @rule(passed=st.integers(0, 120))
    def time_passes(self, passed):
        self.now += passed
        while (asked := self.index.wants(self.now)) is not None:
            rows = []
            while self.far and self.far[0][0] <= asked.until_ms and len(rows) < asked.count_max:
                rows.append(heappop(self.far))
            self.index.loaded(rows, asked.count_max)

    @rule(count=st.integers(1, 4))
    def take(self, count):
        for one in self.index.take_due(self.now, count):
            assert one.due_ms <= self.now
            assert one.key in self.waiting
            assert one.key not in self.taken
            self.taken[one.key] = one

    @rule(wait=st.integers(1, 500))
    def fail(self, wait):
        if self.taken:
            key = next(iter(self.taken))
            one = self.taken.pop(key)
            if self.index.put_back(key, self.now + wait, "error") is not None:
                heappush(self.far, (self.now + wait, one))

    @rule()
    def decide(self):
        if self.taken:
            key = next(iter(self.taken))
            del self.taken[key], self.waiting[key]
            assert self.index.decided(key) is not None

    @invariant()
    def every_message_is_in_one_place(self):
        near, flying = set(self.index.near), set(self.index.in_flight)
        far = {one.key for _, one in self.far}
        assert near | flying | far == set(self.waiting)
        assert len(near) + len(flying) + len(far) == len(self.waiting) == len(self.index)
        assert flying == set(self.taken)

    def teardown(self):
        for _ in range(200):
            self.time_passes(100)
            for one in self.index.take_due(self.now, 100):
                self.taken[one.key] = one
            while self.taken:
                self.decide()
        assert not self.waiting


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
