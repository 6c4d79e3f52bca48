"""Runs a process: uvloop, signals that stop it, and loops that are named, supervised and counted.

A service's `__main__` passes one coroutine function to `run`. All supervised loops end when it returns.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from typing import NoReturn

import uvloop

from gantry_chassis.logs.structured import flush, get_logger
from gantry_chassis.machine.descriptors import raise_limit
from gantry_chassis.machine.environment import Environment, machine
from gantry_chassis.machine.private_files import make_private
from gantry_chassis.start_refusal import EXIT_RESTART, RestartNeeded, StartRefused, refuse_start

BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 10.0
# The sync thread returns its result sooner than with the default of 5 ms, at no measurable cost.
SWITCH_INTERVAL_SECONDS = 1e-4
PR_SET_PDEATHSIG = 1
STDERR = 2

_log = get_logger()


class Life:
    """What `run` gives a service: its environment, the stop signal, and supervision of its loops."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.stopping = asyncio.Event()
        self.restarts: dict[str, int] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # in order of their start

    def stop(self) -> None:
        """Ask the process to drain and end. Repeated calls are safe."""
        self.stopping.set()

    async def sleep(self, seconds: float) -> bool:
        """Sleep, but not past the stop signal; True means stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        return self.stopping.is_set()

    def supervise(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Run `loop` until it returns. When it raises, log and count that, and restart it after a back-off."""
        self.restarts[name] = 0
        task = asyncio.get_running_loop().create_task(self._supervised(name, loop), name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def end_loops(self) -> None:
        """Cancel every supervised loop and wait for them; `run` calls it at the end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _supervised(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        backoff_seconds = BACKOFF_SECONDS_MIN
        while not self.stopping.is_set():
            started = asyncio.get_running_loop().time()
            try:
                await loop()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and _is_asked_to_end():
                    raise
                self.restarts[name] += 1
                _log.exception("loop failed", loop=name, restarts=self.restarts[name])
            else:
                return
            if asyncio.get_running_loop().time() - started > BACKOFF_SECONDS_MAX:
                backoff_seconds = BACKOFF_SECONDS_MIN
            if await self.sleep(backoff_seconds):
                return
            backoff_seconds = min(backoff_seconds * 2, BACKOFF_SECONDS_MAX)


def run(main: Callable[[Life], Awaitable[None]], *, service: str) -> NoReturn:
    """Run `main` until it returns (it should, once `life.stopping` is set), then end the process.

    Raises the limit of open files as far as the machine allows. Exit status 0; 2 after StartRefused (one line on
    stderr); 75 after RestartNeeded; 1 after any other exception. A second signal ends it at once, without drain. SIGUSR1 logs the stacks of
    all threads, even in a busy loop.
    """
    faulthandler.register(signal.SIGUSR1, file=STDERR)
    make_private()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    raise_limit()
    status = 0
    try:
        gc.freeze()  # imported objects live as long as the process: no later collection scans them
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(live(main, machine()))
    except StartRefused as refused:
        flush()
        refuse_start(service, str(refused))
    except RestartNeeded as needed:
        _log.info("process ends, to be started again", reason=str(needed))
        status = EXIT_RESTART
    except Exception:  # noqa: BLE001 - the last place that can say it
        _log.exception("process failed")
        status = 1
    raise SystemExit(status)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to send SIGTERM when the parent (its pid, as the parent knew it) dies; for forked workers."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
        _log.warning("cannot watch the parent process", errno=ctypes.get_errno())
    if os.getppid() != parent:  # it died before the kernel was asked
        os.kill(os.getpid(), signal.SIGTERM)


async def live(main: Callable[[Life], Awaitable[None]], environment: Environment) -> None:
    """Run `main` in the running loop until it returns, with signals that stop it and its supervised loops."""
    life = Life(environment)
    asyncio.get_running_loop().set_exception_handler(_report)
    _listen_for_signals(life)
    try:
        await main(life)
    finally:
        life.stop()
        await life.end_loops()


def _is_asked_to_end() -> bool:
    """Whether the current task itself was cancelled, not just a future it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _listen_for_signals(life: Life) -> None:
    loop = asyncio.get_running_loop()
    signals = count()

    def on_signal(number: signal.Signals) -> None:
        if next(signals):  # not `life.stopping`: a process that stops by itself drains, too
            _log.warning("second signal: ending without drain", signal=number.name)
            flush()
            os._exit(128 + number)
        life.stop()
        _log.info("stopping", signal=number.name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log errors of callbacks and lost tasks, which nothing else reports."""
    error = context.get("exception")
    _log.error(
        "unhandled error in the event loop",
        what=str(context.get("message", "")),
        exc_info=error if isinstance(error, BaseException) else None,
    )
