"""Clocks step by seconds to days at any moment: what retention believes follows no step that did not last, and nothing young goes."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sending_side import ScriptedPeer, SendingSide
from test_disk_care import MIB, care_of, running, until

from broker_store import disk_care
from broker_store.steady_wall import STEP_LASTS_SECONDS, STEP_SECONDS_MIN, SteadyWall

HOUR = 3600.0
EVERY_HOUR = ";".join(map(str, range(24)))
STEPS = st.lists(
    st.tuples(st.floats(0.1, 600), st.one_of(st.just(0.0), st.floats(-80 * HOUR, 80 * HOUR))), max_size=30
)


class Clocks:
    def __init__(self) -> None:
        self.true_s = 0.0
        self.error_s = 0.0

    def wall(self) -> float:
        return 1_700_000_000.0 + self.true_s + self.error_s

    def steady(self) -> SteadyWall:
        return SteadyWall(self.wall, lambda: self.true_s)


@given(STEPS)
@settings(max_examples=300)
def test_a_step_that_is_taken_back_in_time_is_never_followed(steps):
    clocks = Clocks()
    wall, drift_s = clocks.steady(), 0.0
    wrong_since_s = None
    for pass_s, error_s in steps:
        clocks.true_s += pass_s
        if wrong_since_s is not None and clocks.true_s - wrong_since_s >= STEP_LASTS_SECONDS:
            clocks.error_s, wrong_since_s = 0.0, None  # put right before it has lasted
        elif error_s:
            clocks.error_s = error_s
            wrong_since_s = clocks.true_s if wrong_since_s is None else wrong_since_s
        drift_s = max(drift_s, abs(clocks.error_s) if abs(clocks.error_s) < STEP_SECONDS_MIN else 0.0)
        off_s = wall.now_ms() / 1000 - (1_700_000_000.0 + clocks.true_s)
        assert abs(off_s) <= STEP_SECONDS_MIN * 2 * (len(steps) + 1)


@pytest.mark.parametrize("step_s", [80 * HOUR, -80 * HOUR, 60.0])
def test_a_step_that_lasts_is_followed_and_counted_once(step_s):
    clocks = Clocks()
    wall = clocks.steady()
    clocks.error_s = step_s
    before = wall.now_ms()
    assert (wall.steps, wall.step_s) == (1, step_s)
    clocks.true_s += STEP_LASTS_SECONDS - 1
    assert wall.now_ms() == before + int((STEP_LASTS_SECONDS - 1) * 1000)
    clocks.true_s += 1
    assert wall.now_ms() == int(clocks.wall() * 1000)
    assert (wall.steps, wall.step_s) == (1, 0.0)


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
    for segment in side.log.segments[:2]:
        side.files.set_modified_ms(segment.path, int((side.wall_s - 80 * HOUR) * 1000))
    if is_restarted:
        side.wall_s -= 80 * HOUR
        side = side.reopen(delete_when=EVERY_HOUR)
        care = care_of(side)
    async with running(care.delete_old):
        if not is_restarted:  # the clock is right again before retention has believed the step
            side.wall_s -= 80 * HOUR
        side.pass_time(60)
        await asyncio.sleep(0.1)
        side.wall_s += 80 * HOUR  # and wrong once more, while it looks
        await asyncio.sleep(0.1)
    assert care.wall.steps >= 1
    assert care.deleted_segments == 0


@pytest.mark.anyio
async def test_segments_of_this_run_grow_old_by_the_monotonic_clock(monkeypatch):
    monkeypatch.setattr(disk_care, "RETENTION_SECONDS", 0.005)
    side, peer = SendingSide(segment_bytes=MIB, delete_when=EVERY_HOUR, reserved_hours=1), ScriptedPeer()
    care = care_of(side)
    async with running(care.delete_old):
        for _ in range(7):
            side.send(peer, body=b"x" * 250_000)
            side.flush()
        await until(lambda: care._filled_s)
        for segment in side.log.segments:
            side.files.set_modified_ms(segment.path, int((side.wall_s - 80 * HOUR) * 1000))
        await asyncio.sleep(0.1)
        assert care.deleted_segments == 0, "its file's time is wrong: it was written a moment ago"
        side.pass_time(HOUR + 1)
        await until(lambda: care.deleted_segments)
