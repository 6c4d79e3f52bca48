"""Stop signals for a program that waits for its consumer. Handles only signals that nothing else handles, and restores them."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def caught_signals(stop: Callable[[], None]) -> Generator[list[signal.Signals]]:
    """Call `stop` in the running loop at the first signal, and list it; a second one has its previous effect.

    Does nothing outside the main thread, or if the loop does not support signals.
    """
    caught: list[signal.Signals] = []
    loop = asyncio.get_running_loop()
    taken = _free_signals()

    def give_back() -> None:
        while taken:
            loop.remove_signal_handler(taken.pop())

    def come(number: signal.Signals) -> None:
        caught.append(number)
        give_back()
        stop()

    try:
        for number in taken:
            loop.add_signal_handler(number, come, number)
    except NotImplementedError:  # Windows: there the caller ends the program by itself
        taken.clear()
    try:
        yield caught
    finally:
        give_back()


@contextmanager
def caught_signals_of_thread(stop: Callable[[], None]) -> Generator[list[signal.Signals]]:
    """As `caught_signals`, for a main thread that blocks: `stop` is called in it, between two steps of what it waits in."""
    caught: list[signal.Signals] = []
    taken = {number: signal.getsignal(number) for number in _free_signals()}

    def give_back() -> None:
        while taken:
            signal.signal(*taken.popitem())

    def come(number: int, _frame: FrameType | None) -> None:
        caught.append(signal.Signals(number))
        give_back()
        stop()

    for number in taken:
        signal.signal(number, come)
    try:
        yield caught
    finally:
        give_back()


def _free_signals() -> list[signal.Signals]:
    """Return the signals that would end this process, and whose handlers this thread may set."""
    if threading.current_thread() is not threading.main_thread():
        return []
    ends = (signal.SIG_DFL, signal.default_int_handler)
    return [number for number in ENDING if signal.getsignal(number) in ends]
