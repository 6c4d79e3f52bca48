"""A thread in steps: woken, waiting, stopped."""

from __future__ import annotations

import queue
import threading

from gantry_chassis.machine.environment import machine

WAIT_SECONDS = 60


def test_a_wake_before_the_start_is_kept_and_wakes_during_a_step_are_one() -> None:
    began, may_end = queue.SimpleQueue[None](), threading.Semaphore(0)

    def step() -> None:
        began.put(None)
        assert may_end.acquire(timeout=WAIT_SECONDS)

    thread = machine().make_thread(step, "test")
    thread.wake()
    thread.start()
    began.get(timeout=WAIT_SECONDS)
    for _ in range(10):
        thread.wake()
    may_end.release(2)
    began.get(timeout=WAIT_SECONDS)
    thread.stop()
    assert began.empty()


def test_a_step_is_repeated_after_the_seconds_it_returns() -> None:
    waits = iter([0.0, 0.01, None])
    began: queue.SimpleQueue[None] = queue.SimpleQueue()

    def step() -> float | None:
        began.put(None)
        return next(waits)

    thread = machine().make_thread(step, "test")
    thread.start()
    thread.wake()
    for _ in range(3):
        began.get(timeout=WAIT_SECONDS)
    thread.stop()
    assert began.empty()


def test_a_stopped_thread_takes_no_step_unless_it_was_woken() -> None:
    began: queue.SimpleQueue[None] = queue.SimpleQueue()
    for is_woken in (False, True):
        thread = machine().make_thread(lambda: began.put(None), "test")
        if is_woken:
            thread.wake()
        thread.start()
        thread.stop()
        assert began.qsize() == int(is_woken)


def test_a_thread_that_never_started_can_be_stopped() -> None:
    machine().make_thread(lambda: None, "test").stop()
