import asyncio

import pytest

from gantry_link.connections.turn import Turn

pytestmark = pytest.mark.anyio


async def test_work_runs_once_per_turn_and_before_writes():
    order = []
    turn = Turn.current()

    def work():
        order.append("work")
        turn.write_at_end(lambda: order.append("write caused by work"))

    turn.write_at_end(lambda: order.append("write"))
    turn.at_end(work)
    turn.at_end(work)
    assert order == []
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == ["work", "write", "write caused by work"]


async def test_work_added_by_work_runs_in_the_next_turn():
    order = []
    turn = Turn.current()

    def first():
        order.append("first")
        turn.at_end(lambda: order.append("second"))
        turn.write_at_end(lambda: order.append("write"))

    turn.at_end(first)
    for _ in range(3):
        await asyncio.sleep(0)
    assert order == ["first", "write", "second"]


async def test_a_failing_callback_does_not_stop_others():
    done, reported = [], []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: reported.append(context["exception"]))
    turn = Turn.current()
    turn.write_at_end(lambda: 1 // 0)
    turn.write_at_end(lambda: done.append(True))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert done == [True]
    assert isinstance(reported[0], ZeroDivisionError)


async def test_there_is_one_turn_per_loop():
    assert Turn.current() is Turn.current()
    other = await asyncio.to_thread(lambda: asyncio.run(_current()))
    assert other is not Turn.current()


async def _current():
    return Turn.current()


async def test_a_turn_ended_early_runs_added_callbacks_and_continues():
    turn, done = Turn.current(), []
    turn.end()  # no callbacks were added
    turn.at_end(lambda: done.append("work"))
    turn.write_at_end(lambda: done.append("write"))
    turn.end()
    assert done == ["work", "write"]
    turn.write_at_end(lambda: done.append("later"))
    assert done == ["work", "write"]
    await asyncio.sleep(0)
    assert done == ["work", "write", "later"]
    turn.write_at_end(lambda: done.append("again"))
    await asyncio.sleep(0)
    assert done[-1] == "again"
