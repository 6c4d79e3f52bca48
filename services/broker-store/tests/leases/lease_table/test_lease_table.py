"""The pure table of leases against a plain model: a dict with one row per message."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker_store.leases.lease_table.handle_state import HandleState
from broker_store.leases.lease_table.lease_table import LeaseTable
from broker_store.leases.lease_table.runs import Kind, Run, Runs, ranges_of, stretches_of
from broker_store.leases.lease_table.stretches import Stretches

BOOT = 1 << 32
ATTEMPTS_MAX = 4


def offsets_of(first: int, mask: int) -> list[int]:
    return [first + n for n in range(mask.bit_length()) if mask >> n & 1]


@given(st.integers(0, 1000), st.integers(1, 1 << 80))
def test_ranges_hold_exactly_the_bits_of_a_mask(first, mask):
    named = [offset for start, end in stretches_of(first, mask) for offset in range(start, end)]
    assert named == offsets_of(first, mask)
    assert len(ranges_of(first, mask)) % 2 == 0


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_carving_keeps_every_message_once(mask, bits):
    mask |= 1
    runs = Runs()
    run = Run(100, mask, Kind.LEASED, 2, 7, 50, "k")
    runs.add(run)
    carved = runs.carve(run, bits)
    assert [o for one in carved for o in offsets_of(one.first, one.mask)] == offsets_of(100, mask & bits)
    assert sorted(o for one in runs for o in offsets_of(one.first, one.mask)) == offsets_of(100, mask)
    assert runs.count == mask.bit_count()
    ends = [(one.first, one.end) for one in runs]
    assert all(before[1] <= after[0] for before, after in pairwise(ends))
    assert all((one.attempt, one.lease, one.time_ms, one.key) == (2, 7, 50, "k") for one in runs)


class Model(RuleBasedStateMachine):
    """Each message of one queue has a row: state, lease, attempts, time. The table must agree."""

    in_order = False

    def __init__(self) -> None:
        super().__init__()
        self.table = LeaseTable(0, in_order=self.in_order)
        self.now = 1000
        self.leases = BOOT
        self.boot = BOOT
        self.lines: dict[int, dict] = {}
        self.seen_to = 0
        self.handles: list[tuple[int, int]] = []
        self.pending: list[tuple[str, int, int]] = []
        self.forgotten: dict[int, int] = {}

    def is_ours(self, lease: int) -> bool:
        return lease >= self.boot

    def line(self, offset: int) -> dict:
        return self.lines[offset]

    def key(self, offset: int) -> str:
        return f"k{offset % 3}" if self.in_order and offset % 4 else ""

    @rule(count=st.integers(1, 40), wanted=st.integers(0, 1 << 40))
    def look(self, count, wanted):
        start, end = self.table.unseen.first
        end = min(start + count, end or start + count)
        found = [(o, self.key(o), 0) for o in range(start, end) if wanted >> (o - start) & 1]
        if wanted % 3 == 0 and not self.in_order:
            self.table.see_all(start, end - start)
            found = [(o, "", 0) for o in range(start, end)]
        else:
            self.table.see(start, end, found)
        for offset in range(start, end):
            self.lines[offset] = {
                "state": "done",
                "lease": 0,
                "tries": self.forgotten.pop(offset, 0),
                "at": 0,
            }
        for offset, _key, _tries in found:
            self.lines[offset]["state"] = "due"
        self.seen_to = max(self.seen_to, end)

    def may_be_given(self, offset: int) -> bool:
        if self.lines[offset]["state"] != "due":
            return False
        key = self.key(offset)
        earlier = (
            o for o in self.lines if o < offset and self.key(o) == key and self.lines[o]["state"] != "done"
        )
        return not key or not any(earlier)

    @rule(count=st.integers(1, 300), seconds=st.integers(1, 50))
    def take(self, count, seconds):
        self.leases += 1
        due = sorted(offset for offset in self.lines if self.may_be_given(offset))
        taken = self.table.take(count, self.leases, self.now + seconds)
        got = [o for run in taken for o in offsets_of(run.first, run.mask)]
        assert got == due[:count]
        for run in taken:
            for offset in offsets_of(run.first, run.mask):
                line = self.line(offset)
                line.update(state="leased", lease=self.leases, tries=line["tries"] + 1, at=self.now + seconds)
                assert run.attempt == line["tries"]
                self.handles.append((offset, self.leases))

    def held(self, offset: int, lease: int) -> bool:
        line = self.lines.get(offset)
        return bool(line) and line["lease"] == lease and line["state"] == "leased" and line["at"] > self.now

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def ask(self, data):
        offset, lease = data.draw(st.sampled_from(self.handles))
        standing = self.table.handle_state(offset, lease, self.now, self.is_ours)
        line = self.lines.get(offset)
        if line is None:
            assert standing is (HandleState.EXPIRED if self.is_ours(lease) else HandleState.FORGOTTEN)
        elif line["state"] == "done":
            assert standing is HandleState.DONE
        elif self.held(offset, lease):
            assert standing is HandleState.HELD
        elif line["state"] not in {"pending", "leased"}:
            is_free = line["lease"] == 0 and not self.is_ours(lease) and line["state"] != "dead"
            assert standing is (HandleState.FORGOTTEN if is_free else HandleState.EXPIRED)

    @precondition(lambda self: self.handles)
    @rule(
        data=st.data(),
        spread=st.integers(1, 1 << 20),
        what=st.sampled_from(["ack", "nack", "extend", "give back"]),
    )
    def settle_some(self, data, spread, what):
        offset, lease = data.draw(st.sampled_from(self.handles))
        mask = 0
        for n in range(20):
            if spread >> n & 1 and self.held(offset + n, lease):
                mask |= 1 << n
        if not mask:
            return
        shift = (mask & -mask).bit_length() - 1
        first, mask = offset + shift, mask >> shift
        if what == "extend":
            self.table.extend(first, mask, lease, self.now + 77)
        elif what == "give back":
            self.table.give_back(first, mask, lease)
        else:
            self.table.hold_for(first, mask)
            self.pending.append((what, first, mask))
        for one in offsets_of(first, mask):
            line = self.line(one)
            if what == "extend":
                line["at"] = self.now + 77
            elif what == "give back":
                line.update(state="due", lease=0, tries=line["tries"] - 1)
            else:
                line["state"] = "pending"

    @precondition(lambda self: self.pending)
    @rule(is_durable=st.booleans(), delay=st.integers(0, 30))
    def write(self, is_durable, delay):
        what, first, mask = self.pending.pop(0)
        if not is_durable:
            self.table.withdraw(first, mask)
        elif what == "ack":
            self.table.settle(first, mask)
        else:
            self.table.put_back(first, mask, self.now + delay, self.now, ATTEMPTS_MAX)
        for one in offsets_of(first, mask):
            line = self.line(one)
            if not is_durable:
                line["state"] = "leased"
            elif what == "ack":
                line["state"] = "done"
            elif line["tries"] >= ATTEMPTS_MAX:
                line["state"] = "dead"
            elif delay:
                line.update(state="waiting", at=self.now + delay)
            else:
                line["state"] = "due"
        self.expire()

    @rule(seconds=st.integers(0, 60))
    def pass_time(self, seconds):
        self.now += seconds
        self.expire()

    def expire(self):
        self.table.expire(self.now, ATTEMPTS_MAX)
        for line in self.lines.values():
            if line["state"] in {"leased", "waiting"} and line["at"] <= self.now:
                is_dead = line["state"] == "leased" and line["tries"] >= ATTEMPTS_MAX
                line["state"] = "dead" if is_dead else "due"

    @precondition(lambda self: self.table.dead)
    @rule(is_written=st.booleans())
    def bury(self, is_written):
        dead, self.table.dead = self.table.dead, []
        for run in dead:
            if is_written:
                for one in offsets_of(run.first, run.mask):
                    assert self.line(one)["state"] == "dead"
                    self.line(one)["state"] = "done"
                self.table.settle(run.first, run.mask)
            else:
                self.table.revive(run)

    @rule(forward=st.integers(-20, 20))
    def move(self, forward):
        if self.pending:
            return
        offset = max(self.table.low + forward, 0)
        if offset < self.table.low:
            self.lines = {o: line for o, line in self.lines.items() if o < offset}
            self.seen_to = offset
            self.forgotten = {}
            self.handles = []
        else:
            for one in range(self.seen_to, offset):
                self.lines[one] = {"state": "done", "lease": 0, "tries": 0, "at": 0}
            for one, line in self.lines.items():
                if one < offset:
                    line["state"] = "done"
            self.forgotten = {o: tries for o, tries in self.forgotten.items() if o >= offset}
            for one in range(offset):
                self.lines.setdefault(one, {"state": "done", "lease": 0, "tries": 0, "at": 0})
            self.seen_to = max(self.seen_to, offset)
        self.table.move_to(offset)

    @rule()
    def restart(self):
        if self.pending:
            return
        undone = list(self.table.undone())
        attempts = list(self.table.known_attempts())
        again = LeaseTable(self.table.unseen.next, in_order=self.in_order)
        again.unseen.gaps = Stretches(undone)
        for first, count, attempt in attempts:
            again.unseen.note_attempts(first, count, attempt)
        self.table = again
        self.boot = self.leases = self.boot + BOOT
        for offset in [o for o, line in self.lines.items() if line["state"] != "done"]:
            tries = self.lines.pop(offset)["tries"]
            if tries:
                self.forgotten[offset] = tries

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def adopt(self, data):
        offset, lease = data.draw(st.sampled_from(self.handles))
        if self.table.handle_state(offset, lease, self.now, self.is_ours) is not HandleState.FORGOTTEN:
            return
        start = self.table.unseen.next
        assert self.table.adopt(offset, lease, self.now + 60, self.key(offset))
        line = self.lines.setdefault(offset, {"tries": self.forgotten.pop(offset, 0)})
        line.update(state="leased", lease=lease, at=self.now + 60, tries=max(line["tries"], 1))
        self.seen_to = max(self.seen_to, offset + 1)
        assert self.table.unseen.next >= start

    @invariant()
    def nothing_vanishes_and_nothing_is_given_twice(self):
        table = self.table
        states: dict[int, str] = {}
        ends = 0
        for run in table.runs:
            assert run.first >= ends, "runs overlap"
            ends = run.end
            for offset in offsets_of(run.first, run.mask):
                is_pending = run.pending >> (offset - run.first) & 1
                states[offset] = "pending" if is_pending else run.kind.name.lower()
        for offset, line in self.lines.items():
            state = states.get(offset, "done")
            if state == "held":
                state = "due"
            assert state == line["state"], (offset, state, line)
        unknown = [o for o in range(self.seen_to) if o not in self.lines]
        in_gaps = [o for start, end in table.unseen.gaps for o in range(start, end)]
        assert [o for o in unknown if o < table.unseen.next] == in_gaps
        not_done = [o for o, line in self.lines.items() if line["state"] != "done"] + unknown
        assert table.low == min([*not_done, table.unseen.next])


class OrderedModel(Model):
    """The same with one message of a key at a time."""

    in_order = True


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestOrderedModel = OrderedModel.TestCase
TestOrderedModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_a_poisoned_key_blocks_only_itself():
    table = LeaseTable(0, in_order=True)
    table.see(0, 6, [(n, key, 0) for n, key in enumerate(["bad", "good", "bad", "good", "", "other"])])
    first = table.take(10, 1, 100)
    assert [run.first for run in first] == [0, 1, 4, 5]
    for run in first[1:]:
        table.settle(run.first, run.mask)
    assert [run.first for run in table.take(10, 2, 100)] == [3]
    table.put_back(0, 1, 50, 10, 16)
    assert not table.has_due()
    table.expire(50, 16)
    assert [(run.first, run.attempt) for run in table.take(10, 3, 100)] == [(0, 2)]
    assert table.low == 0


def test_an_adopted_message_holds_the_next_of_its_key():
    table = LeaseTable(0, in_order=True)
    assert table.adopt(1, 7, 100, "k")
    table.see(0, 1, [(0, "other", 0)])
    table.see(2, 4, [(2, "k", 0), (3, "", 0)])
    assert [run.first for run in table.take(10, 9, 100)] == [0, 3]
    table.put_back(1, 1, 0, 10, 16)
    assert [(run.first, run.attempt) for run in table.take(10, 10, 100)] == [(1, 2)]
    table.settle(1, 1)
    assert [run.first for run in table.take(10, 11, 100)] == [2]


def test_a_message_is_not_adopted_behind_an_earlier_one_of_its_key():
    table = LeaseTable(0, in_order=True)
    table.see(0, 2, [(0, "k", 0), (1, "k", 0)])
    assert table.handle_state(1, 7, 10, lambda _lease: False) is HandleState.EXPIRED
    assert not table.adopt(2, 7, 100, "k")
    assert table.unseen.has(2)
    assert table.adopt(2, 7, 100, "other")


def test_a_message_that_was_leased_before_its_group_kept_an_order_stays_leased_when_an_earlier_one_is_done():
    table = LeaseTable(0, in_order=True)
    assert table.adopt(3, 7, 100, "k")
    assert table.adopt(1, 7, 100, "k")
    table.settle(1, 1)
    assert not table.has_due()
    table.see(0, 1, [])
    table.see(2, 3, [])
    table.see(4, 5, [(4, "k", 0)])
    assert table.take(10, 9, 100) == []
    table.settle(3, 1)
    assert [run.first for run in table.take(10, 10, 100)] == [4]


@pytest.mark.parametrize("is_spread", [False, True])
def test_a_hundred_thousand_messages_in_flight_cost_less_than_a_hundred_megabytes(is_spread):
    import tracemalloc

    tracemalloc.start()
    table = LeaseTable(0)
    if is_spread:
        for offset in range(100_000):
            table.see(2 * offset, 2 * offset + 2, [(2 * offset, "", 0)])
            table.take(1, offset + 1, 10_000 + offset)
    else:
        table.see_all(0, 100_000)
        for n in range(100_000 // 32):
            table.take(32, n + 1, 10_000)
    size, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.is_full or not is_spread
    assert size < 100 * 1024 * 1024


def test_timers_of_leases_that_ended_early_do_not_pile_up():
    table = LeaseTable(0)
    for n in range(20_000):
        table.see_all(n, 1)
        (run,) = table.take(1, n + 1, 1_000_000)
        table.settle(run.first, run.mask)
    assert len(table._timers) < 5_000
    assert table.low == 20_000
