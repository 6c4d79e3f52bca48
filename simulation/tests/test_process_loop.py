"""The loop of a simulated process keeps asyncio's promises, and what it does depends on the seed alone."""

from __future__ import annotations

import asyncio

import pytest

from gantry_chassis.process import Life
from gantry_simulation.network.network import Network
from gantry_simulation.processes.process import Process
from gantry_simulation.world.not_simulated import NotSimulated
from gantry_simulation.world.trace import Trace
from gantry_simulation.world.world import World

MINUTE = 60.0


def one_process(world: World) -> Process:
    return Process(world, Network(world), "one", "10.0.0.1")


def run(main, seed: int = 1, seconds: float = 60) -> tuple[World, Process]:
    with World(seed) as world:
        process = one_process(world)
        process.start(main)
        world.run_for(seconds)
    return world, process


def test_ready_callbacks_run_in_order_and_those_added_meanwhile_in_the_next_turn() -> None:
    seen: list[str] = []

    async def main(_life: Life) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: (seen.append("first"), loop.call_soon(seen.append, "third")))
        loop.call_soon(seen.append, "second")
        await asyncio.sleep(1)

    world, process = run(main)
    assert seen == ["first", "second", "third"]
    assert not process.is_running
    assert world.violations == []


def test_timers_fire_in_order_and_never_early() -> None:
    seen: list[float] = []

    async def main(_life: Life) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        waits = [0.3, 0.1, 1.5, 0.0, 0.1]
        for wait in waits:
            loop.call_later(wait, lambda wait=wait: seen.append(loop.time() - began - wait))
        loop.call_later(1, seen.append, -1).cancel()
        await asyncio.sleep(2)

    run(main)
    assert len(seen) == 5
    assert all(-1e-9 <= late < 0.001 for late in seen)


def test_an_hour_of_sleep_costs_no_time(world: World) -> None:
    async def main(_life: Life) -> None:
        for _ in range(60):
            await asyncio.sleep(MINUTE)

    process = one_process(world)
    process.start(main)
    assert world.run_until(lambda: not process.is_running, within=3601)
    assert 3599 < world.now_ns / 1e9 < 3601


def test_a_call_in_a_thread_takes_virtual_time_and_returns_its_result_or_its_error() -> None:
    seen: list[object] = []

    async def main(life: Life) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen.append(await asyncio.to_thread(lambda: "result"))
        assert loop.time() > began
        workers = life.environment.workers(1, "one")
        first, second = workers.run(seen.append, "first"), workers.run(seen.append, "second")
        await asyncio.gather(first, second)
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 // 0)

    world, _ = run(main)
    assert seen == ["result", "first", "second"]
    assert world.violations == []


def test_a_killed_process_runs_nothing_any_more_not_even_its_finally(world: World) -> None:
    seen: list[str] = []

    async def main(_life: Life) -> None:
        try:
            while True:
                seen.append("alive")
                await asyncio.sleep(1)
        finally:
            seen.append("finally")

    process = one_process(world)
    process.start(main)
    world.run_for(2.5)
    process.kill()
    world.run_for(10)
    assert seen == ["alive"] * 3
    process.start(main)
    world.run_for(0.5)
    assert seen == ["alive"] * 4
    assert process.lives == 2


def test_a_paused_process_does_what_waited_once_it_is_resumed(world: World) -> None:
    seen: list[float] = []

    async def main(_life: Life) -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(asyncio.get_running_loop().time())

    process = one_process(world)
    process.start(main)
    world.run_for(2.5)
    process.pause()
    world.run_for(10)
    assert len(seen) == 2
    process.resume()
    world.run_for(0.1)
    assert len(seen) == 3
    assert seen[2] - seen[1] > 9


def test_a_stopped_process_returns(world: World) -> None:
    async def main(life: Life) -> None:
        life.supervise("waiting", life.stopping.wait)
        await life.stopping.wait()

    process = one_process(world)
    process.start(main)
    world.run_for(1)
    assert process.is_running
    process.stop()
    assert world.run_until(lambda: not process.is_running, within=1)
    assert world.violations == []


def test_clocks_drift_apart_and_only_the_wall_clock_steps(world: World) -> None:
    process = one_process(world)
    steady, wall = process.clocks.steady(), process.clocks.wall_ns()
    world.run_for(1000)
    ran, ran_wall = process.clocks.steady() - steady, process.clocks.wall_ns() - wall
    assert 0 < abs(ran - 1000) <= 0.1
    assert ran_wall == pytest.approx(ran * 1e9)
    process.clocks.step_wall(-3600)
    assert process.clocks.steady() - steady == ran
    assert process.clocks.wall_ns() - wall - ran_wall == -3_600_000_000_000


@pytest.mark.parametrize("how", ["callback", "unread task", "main"])
def test_an_error_that_nobody_handles_is_a_violation(how: str) -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    async def main(_life: Life) -> None:
        if how == "callback":
            asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        elif how == "unread task":
            asyncio.get_running_loop().create_task(fails())
        else:
            await fails()
        await asyncio.sleep(1)

    world, _ = run(main)
    assert len(world.violations) == 1
    assert "ZeroDivisionError" in world.violations[0].what


def test_what_the_loop_cannot_do_fails_with_its_name() -> None:
    async def main(_life: Life) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotSimulated, match="add_reader"):
            loop.add_reader(0, print)
        with pytest.raises(NotSimulated, match="connect_write_pipe"):
            await loop.connect_write_pipe(asyncio.Protocol, None)

    world, _ = run(main)
    assert world.violations == []


def test_a_dead_process_whose_finally_awaits_leaves_nothing_behind(
    world: World, recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            seen.append("ended")

    async def main(_life: Life) -> None:
        try:
            await waits()
        finally:
            asyncio.get_running_loop().create_task(waits())

    process = one_process(world)
    process.start(main)
    world.run_for(1)
    process.kill()
    world.close()
    assert seen == []
    assert not recwarn.list
    assert capsys.readouterr().err == ""


def digest(seed: int) -> str:
    """The hash of a run in which three tasks, a timer and threads overlap."""

    async def main(life: Life) -> None:
        async def works(number: int) -> None:
            for _ in range(20):
                await asyncio.sleep(life.environment.rng.random())
                await asyncio.to_thread(lambda: number)

        await asyncio.gather(*(works(number) for number in range(3)))

    world, process = run(main, seed)
    assert not process.is_running
    return world.trace.digest()


def test_a_seed_repeats_its_run_and_another_seed_does_not() -> None:
    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_a_timer_that_input_overtakes_has_one_event_and_one_turn(world: World) -> None:
    turns: list[int] = []

    async def main(life: Life) -> None:
        asyncio.get_running_loop().call_later(1, lambda: turns.append(world.now_ns))
        await life.stopping.wait()

    process = one_process(world)
    process.start(main)
    world.run_for(0.1)
    waiting = len(world._events)
    for _ in range(50):
        process.deliver(lambda: None)
        world.run_for(0.01)
    assert len(world._events) == waiting
    world.run_for(1)
    assert len(turns) == 1
    world.run_for(5)
    assert world.violations == []


def test_a_paused_process_runs_an_overtaken_timer_once_it_is_resumed(world: World) -> None:
    ran: list[float] = []

    async def main(life: Life) -> None:
        asyncio.get_running_loop().call_later(1, lambda: ran.append(world.now_ns / 1e9))
        await life.stopping.wait()

    process = one_process(world)
    process.start(main)
    world.run_for(0.5)
    process.pause()
    process.deliver(lambda: None)
    world.run_for(2)
    assert ran == []
    process.resume()
    world.run_for(0.1)
    assert len(ran) == 1
    assert 2.5 <= ran[0] < 2.6


def test_a_trace_keeps_the_latest_events_and_a_digest_amid_a_run_changes_nothing() -> None:
    whole, asked = Trace(300), Trace(300)
    for number in range(1_000):
        for trace in (whole, asked):
            trace.add(number, "one", "turn", number)
        if number % 7 == 0:
            asked.digest()
    assert whole.lines() == [f"{number} one turn {number}" for number in range(700, 1_000)]
    assert asked.lines() == whole.lines()
    assert asked.digest() == whole.digest()
    whole.add(1_000, "one", "turn", 1)
    assert asked.digest() != whole.digest()
