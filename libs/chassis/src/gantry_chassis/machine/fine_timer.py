"""A timer accurate to about 0.1 ms. The loop's own timers have whole milliseconds and fire up to two late.

Linux: the loop watches a timerfd. Without one, without a free descriptor, or in a loop that watches no descriptors, the loop's timers take over.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from math import ceil

_libc = ctypes.CDLL(None, use_errno=True)
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_NANOSECONDS = 1_000_000_000


class _Times(ctypes.Structure):
    """The kernel's `struct itimerspec`: interval, then first expiry, each in seconds and nanoseconds."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class FineTimer:
    """Calls back once at the time of the last `set`. Create and use it in the running loop."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._times = _Times(0, 0, 0, 0)
        self._times_at = ctypes.byref(self._times)
        self._descriptor = _descriptor()
        if self._descriptor >= 0:
            try:
                self._loop.add_reader(self._descriptor, self._expired)
            except NotImplementedError:
                os.close(self._descriptor)
                self._descriptor = -1

    def set(self, seconds: float) -> None:
        """Call back after this many seconds, replacing the earlier time."""
        if self._descriptor >= 0:
            self._arm(max(int(seconds * _NANOSECONDS), 1))
            return
        self.cancel()
        self._handle = self._loop.call_later(ceil(max(seconds, 0) * 1000) / 1000, self._callback)

    def cancel(self) -> None:
        """Do not call back until the next `set`."""
        if self._descriptor >= 0:
            self._arm(0)
        elif self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close(self) -> None:
        """Close the timer. Do not set it again."""
        self.cancel()
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _arm(self, nanoseconds: int) -> None:
        """Set the kernel's timer; 0 stops it. Setting discards an earlier expiry, so nothing has to read it."""
        times = self._times
        times.first_s, times.first_ns = divmod(nanoseconds, _NANOSECONDS)
        if _libc.timerfd_settime(self._descriptor, 0, self._times_at, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def _expired(self) -> None:
        self._arm(0)
        self._callback()


def _descriptor() -> int:
    """Return a timerfd; -1 where there is none."""
    with contextlib.suppress(AttributeError):
        return int(_libc.timerfd_create(time.CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC))
    return -1
