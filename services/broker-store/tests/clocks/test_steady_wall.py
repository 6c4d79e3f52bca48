"""Clocks step by seconds to days at any moment: only a step that lasts is trusted, and nothing young is deleted."""

import asyncio

import pytest
from disk_care_side import MIB, care_of, running
from hypothesis import given, settings
from hypothesis import strategies as st
from sending_side import ScriptedPeer, SendingSide
from simulated_clocks import EPOCH_S, Clocks

from broker_store.clocks.steady_wall import STEP_LASTS_SECONDS, STEP_SECONDS_MIN
from broker_store.process import disk_care

HOUR = 3600.0
EVERY_HOUR = ";".join(map(str, range(24)))
STEPS = st.lists(
    st.tuples(st.floats(0.1, 600), st.one_of(st.just(0.0), st.floats(-80 * HOUR, 80 * HOUR))), max_size=30
)
DAYS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(1, 4000)),
        st.tuples(st.just("fill"), st.just(0.0)),
        st.tuples(st.just("step"), st.sampled_from([80 * HOUR, -80 * HOUR, 2 * HOUR, -2 * HOUR, 3.0])),
        st.tuples(st.just("right"), st.just(0.0)),
        st.tuples(st.just("restart"), st.just(0.0)),
    ),
    max_size=16,
)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_a_step_that_is_reverted_in_time_is_never_trusted(steps):
    clocks = Clocks()
    clock = clocks.open()
    wrong_since_s = None
    for pass_s, error_s in steps:
        clocks.true_s += pass_s
        if wrong_since_s is not None and clocks.true_s - wrong_since_s >= STEP_LASTS_SECONDS:
            clocks.error_s, wrong_since_s = 0.0, None  # corrected before it has lasted
        elif error_s:
            clocks.error_s = error_s
            wrong_since_s = clocks.true_s if wrong_since_s is None else wrong_since_s
        off_s = clock.trusted_ms() / 1000 - (EPOCH_S + clocks.true_s)
        assert abs(off_s) <= STEP_SECONDS_MIN * 2 * (len(steps) + 1)


@pytest.mark.parametrize("step_s", [-80 * HOUR, -60.0])
def test_a_step_back_that_lasts_is_trusted_and_counted_once(step_s):
    clocks = Clocks()
    clock = clocks.open()
    clocks.error_s = step_s
    before = clock.trusted_ms()
    assert (clock.wall.steps, clock.wall.step_s) == (1, step_s)
    clocks.true_s += STEP_LASTS_SECONDS - 1
    assert clock.trusted_ms() - before == (STEP_LASTS_SECONDS - 1) * 1000
    clocks.true_s += 1
    assert clock.trusted_ms() == int(clocks.wall() * 1000)
    assert (clock.wall.steps, clock.wall.step_s) == (1, 0.0)


@pytest.mark.anyio
@pytest.mark.parametrize("is_restarted", [True, False])
async def test_retention_deletes_nothing_young_after_one_batch_with_a_wrong_clock(monkeypatch, is_restarted):
    monkeypatch.setattr(disk_care, "RETENTION_SECONDS", 0.005)
    side, peer = SendingSide(segment_bytes=MIB, delete_when=EVERY_HOUR), ScriptedPeer()

    def put() -> None:
        for _ in range(7):
            side.send(peer, body=b"x" * 250_000)
            side.flush()
        for segment in side.log.segments:
            side.files.set_modified_ms(segment.path, int(side.wall_s * 1000))

    put()
    care = care_of(side)
    side.wall_s += 80 * HOUR
    put()
    await side.roll()
    for segment in side.log.segments[:2]:
        side.files.set_modified_ms(segment.path, int((side.wall_s - 80 * HOUR) * 1000))
    if is_restarted:
        side.wall_s -= 80 * HOUR
        side = side.reopen(delete_when=EVERY_HOUR)
        care = care_of(side)
    async with running(care.delete_old):
        if not is_restarted:  # the clock is right again before the step is trusted
            side.wall_s -= 80 * HOUR
        side.pass_time(60)
        await asyncio.sleep(0.1)
        side.wall_s += 80 * HOUR  # and wrong once more, during the check
        await asyncio.sleep(0.1)
    assert side.clock.wall.steps >= 1
    assert care.deleted_segments == 0


class Days:
    """A store whose log fills and is deleted while its clocks step arbitrarily. Retention: an hour."""

    def __init__(self) -> None:
        self.side = SendingSide(segment_bytes=MIB, reserved_hours=1, delete_when=EVERY_HOUR)
        self.care = care_of(self.side)
        self.error_s = 0.0
        self.written_s: dict[str, float] = {}

    def fill(self) -> None:
        side = self.side
        for _ in range(4):
            side.send(ScriptedPeer(), body=b"x" * 250_000)
            side.flush()
            for segment in side.log.segments[-2:]:
                if segment.end > side.log.written_end - 260_000:
                    self.written_s[segment.path] = side.monotonic_s
                    side.files.set_modified_ms(segment.path, int(side.wall_s * 1000))

    def do(self, kind: str, value: float) -> None:
        side = self.side
        if kind == "fill":
            self.fill()
        elif kind == "pass":
            for _ in range(4):
                side.pass_time(value / 4)
                side.clock.now_ms()
        elif kind == "restart":
            self.side = side.reopen(reserved_hours=1, delete_when=EVERY_HOUR)
            self.care = care_of(self.side)
        else:
            step_s = value if kind == "step" else -self.error_s
            side.wall_s += step_s
            self.error_s += step_s

    async def judge(self) -> None:
        await self.side.roll()
        await self.care.delete_expired()
        for path, written_s in list(self.written_s.items()):
            if not self.side.files.exists(path):
                assert self.side.monotonic_s - written_s > HOUR - 1, "it was deleted before its time"
                del self.written_s[path]


@given(DAYS)
@settings(max_examples=60, deadline=None)
def test_retention_deletes_nothing_younger_than_its_time_and_all_that_is_older_in_the_end(days):
    async def live() -> None:
        life = Days()
        for kind, value in days:
            life.do(kind, value)
            await life.judge()
        life.do("right", 0.0)
        life.fill()
        wrong_s = sum(
            abs(value) for kind, value in days if kind == "step"
        )  # files may have future time stamps
        for _ in range(40):
            life.do("pass", (wrong_s + 2 * HOUR) / 40)
        await life.judge()
        assert len(life.written_s) <= 2

    asyncio.run(live())
