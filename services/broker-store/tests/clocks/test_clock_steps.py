"""A whole store while its wall clock steps: delays, leases and the idempotency window follow the time that passes."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leasing_side import LeasingSide, bodies
from sending_side import DIRECTORY, ScriptedPeer, SendingSide
from settling_side import SettlingSide, deliver

from broker_store.clocks.clock_care import ClockCare, ClockKeeping
from broker_store.clocks.clock_note import load_clock_note, store_clock_note
from broker_store.clocks.opening import clock_file
from broker_store.clocks.steady_wall import STEP_LASTS_SECONDS
from broker_store.clocks.store_clock import SLOWER_RATE
from gantry_chassis.machine.environment import machine
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleOutput

pytestmark = pytest.mark.anyio
HOUR = 3600.0
LEVEL_1H = {"DELAY": "17"}
RELATIVE_1H = {"TIMER_DELAY_MS": "3600000"}
PLACES = {"level": (LEVEL_1H, SCHEDULE_TOPIC, 16), "relative": (RELATIVE_1H, TIMER_TOPIC, 0)}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0.1, 1500)),
        st.tuples(st.just("step"), st.sampled_from([80 * HOUR, -80 * HOUR, 2 * HOUR, -2 * HOUR, 3.0, -3.0])),
        st.tuples(st.just("right"), st.just(0.0)),
        st.tuples(st.just("restart"), st.just(0.0)),
    ),
    max_size=14,
)


class Days:
    """A store with arbitrary clocks, and the loop that watches them."""

    def __init__(self, side: Any) -> None:
        self.side = side
        self.error_s = 0.0
        self.keeping = ClockKeeping(side.clock)

    def pass_time(self, seconds: float, looks: int = 20) -> None:
        for _ in range(looks):
            self.side.pass_time(seconds / looks)
            self.look()

    def look(self) -> None:
        self.side.clock.now_ms()
        note = self.keeping.due()
        if note is not None:
            store_clock_note(clock_file(self.side.files, DIRECTORY), note)
            self.keeping.written()

    def step(self, seconds: float) -> None:
        self.side.wall_s += seconds
        self.error_s += seconds
        self.look()

    def restart(self, **chosen: Any) -> None:
        self.side = self.side.reopen(**chosen)
        self.keeping = ClockKeeping(self.side.clock)

    def do(self, kind: str, value: float) -> None:
        if kind == "pass":
            self.pass_time(value)
        elif kind == "restart":
            self.restart()
        else:
            self.step(value if kind == "step" else -self.error_s)


def waiting(side: SettlingSide, kind: str) -> None:
    properties, _, _ = PLACES[kind]
    side.topics.ensure("orders", 4)
    side.send(ScriptedPeer(), body=b"in an hour", properties={"UNIQ_KEY": "D1", **properties})
    side.flush()


def asked(side: SettlingSide, kind: str, offset: int = 0, **more: Any) -> Any:
    _, topic, queue_id = PLACES[kind]
    item = side.item(offset, more.pop("output", deliver()), topic=topic, queue_id=queue_id, **more)
    return side.settled([item], topic=topic, queue_id=queue_id)[0]


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_delay_is_not_over_because_one_batch_saw_a_clock_that_was_hours_ahead(kind, is_restarted):
    side = SettlingSide()
    waiting(side, kind)
    side.wall_s += 2 * HOUR
    side.send(ScriptedPeer(), body=b"x")
    side.flush()
    if is_restarted:
        side = side.reopen()
    side.wall_s -= 2 * HOUR
    side.pass_time(1)
    assert asked(side, kind).status == "early"
    side.pass_time(HOUR)
    assert asked(side, kind).status == "settled"


@pytest.mark.parametrize("kind", PLACES)
async def test_a_delay_begun_before_a_lasting_step_keeps_its_duration_and_its_owner_gets_the_new_time(kind):
    days = Days(SettlingSide())
    waiting(days.side, kind)
    days.step(2 * HOUR)
    days.pass_time(STEP_LASTS_SECONDS + 60, 100)
    assert days.side.clock.difference_s() < 1
    early = asked(days.side, kind)
    assert early.status == "early"
    left_ms = early.due_ms - days.side.clock.now_ms()
    assert left_ms == pytest.approx((HOUR - STEP_LASTS_SECONDS - 60) * 1000, abs=20)
    days.restart()
    assert asked(days.side, kind).due_ms == early.due_ms
    days.pass_time(left_ms / 1000 + 1)
    assert asked(days.side, kind).status == "settled"


async def test_a_delay_that_is_rolled_forward_after_such_a_step_keeps_the_rest_of_its_time():
    days = Days(SettlingSide())
    waiting(days.side, "relative")
    due_ms = days.side.clock.now_ms() + int(HOUR * 1000)
    days.step(2 * HOUR)
    days.pass_time(STEP_LASTS_SECONDS + 60, 100)
    again = SettleOutput(TIMER_TOPIC, 0, set={"TIMER_OUT_MS": str(due_ms)}, drop=("TIMER_DELAY_MS",))
    assert asked(days.side, "relative", output=again, force=True, outcome="rolled").status == "settled"
    days.pass_time(HOUR - STEP_LASTS_SECONDS - 120)
    assert asked(days.side, "relative", 1).status == "early"
    days.pass_time(120)
    assert asked(days.side, "relative", 1).status == "settled"


@given(STEPS, st.sampled_from(sorted(PLACES)))
@settings(max_examples=60, deadline=None)
def test_no_delay_is_delivered_early_or_later_than_the_bound(steps, kind):
    async def live() -> None:
        days = Days(SettlingSide())
        waiting(days.side, kind)
        for event in steps:
            days.do(*event)
            passed_s = days.side.monotonic_s
            status = asked(days.side, kind).status
            if passed_s < HOUR * 0.9994:
                assert status == "early"
            elif passed_s > HOUR / (1 - SLOWER_RATE) + 1:
                assert status in ("settled", "already")
            if status != "early":
                return

    asyncio.run(live())


@pytest.mark.parametrize("step_s", [24 * HOUR, -24 * HOUR])
@pytest.mark.parametrize("lasts_s", [1.0, STEP_LASTS_SECONDS + 60])
async def test_a_step_ends_no_lease(step_s, lasts_s):
    days = Days(LeasingSide())
    side = days.side
    side.set_group()
    side.put("a", "b")
    got = side.lease(invisible_ms=3_600_000)
    days.step(step_s)
    days.pass_time(lasts_s, 100)
    assert bodies(side.lease()) == []
    assert side.ack(got[0]) == [1]
    days.step(-step_s)
    days.pass_time(lasts_s, 100)
    assert side.ack(got[1]) == [1]


async def test_a_lease_ends_by_the_time_that_passed_while_the_wall_clock_is_wrong():
    days = Days(LeasingSide())
    days.side.set_group()
    days.side.put("a")
    days.side.lease(invisible_ms=30_000)
    days.step(-24 * HOUR)
    days.pass_time(29)
    assert bodies(days.side.lease()) == []
    days.pass_time(2)
    assert bodies(days.side.lease()) == ["a"]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("lasts_s", [1.0, STEP_LASTS_SECONDS + 60])
async def test_a_step_ahead_ends_no_idempotency_window(lasts_s, is_restarted):
    days, peer = Days(SendingSide(idempotency_window_seconds=3600)), ScriptedPeer()

    def send(unique: str, key: str = "k") -> Any:
        days.side.send(peer, body=key.encode(), properties={"UNIQ_KEY": unique, "__GANTRY_KEY": key})
        days.side.flush()
        return peer.answers[-1].read(SendReplyHeader).duplicate

    send("U1")
    days.step(24 * HOUR)
    days.pass_time(lasts_s, 100)
    send("U2", "other")
    await days.side.sending.checkpoints.take()
    if is_restarted:
        days.restart(idempotency_window_seconds=3600)
    assert send("U3")
    days.pass_time(HOUR)
    assert not send("U4")


async def test_an_instant_that_only_store_time_has_passed_is_not_delivered_at_once():
    days = Days(SettlingSide())
    days.side.topics.ensure("orders", 4)
    days.step(-HOUR)
    instant = int(days.side.wall_s * 1000) + 60_000
    days.side.send(
        ScriptedPeer(), body=b"timed", properties={"UNIQ_KEY": "T", "TIMER_DELIVER_MS": str(instant)}
    )
    days.side.flush()
    assert days.side.records() == []
    assert asked(days.side, "relative").status == "early"
    days.pass_time(61)
    assert asked(days.side, "relative").status == "settled"


async def test_an_instant_is_late_by_no_more_than_a_step_takes_to_be_trusted():
    days = Days(SettlingSide())
    days.side.topics.ensure("orders", 4)
    instant = int((days.side.wall_s + 2 * HOUR) * 1000)
    days.side.send(
        ScriptedPeer(), body=b"timed", properties={"UNIQ_KEY": "T", "TIMER_DELIVER_MS": str(instant)}
    )
    days.side.flush()
    days.step(2 * HOUR)
    days.pass_time(STEP_LASTS_SECONDS - 30)
    assert asked(days.side, "relative").status == "early"
    days.pass_time(60, 100)
    assert asked(days.side, "relative").status == "settled"


async def test_the_clock_loop_reports_a_step_once_and_saves_its_note(capsys):
    side = SendingSide()
    file = clock_file(side.files, DIRECTORY)
    thread = machine().workers(1, "disk")
    care = ClockCare(side.clock, file, thread)
    side.wall_s += 2 * HOUR
    for _ in range(int(STEP_LASTS_SECONDS) + 30):
        side.pass_time(1)
        await care.look()
    out = capsys.readouterr().out
    assert out.count("the wall clock stepped") == 1
    assert out.count("trusted again") == 1
    assert side.clock.wall.steps == 1
    note = load_clock_note(file)
    assert note is not None
    assert [shift.by_ms for shift in note.shifts] == [pytest.approx(2 * HOUR * 1000, abs=2)]
    assert abs(side.clock.difference_s()) < 0.01
    thread.close()


async def test_an_unreadable_clock_note_does_not_fail_the_start():
    side = SendingSide()
    side.files.replace_atomically(f"{DIRECTORY}/gantry/clock.json", b'{"boot":7}')
    again = side.reopen()
    assert again.clock.now_ms() == int(again.wall_s * 1000)
