"""Runs the launcher in its own process, which reports the start to its caller over a pipe (`up --detach`)."""

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from gantry_launcher.errors import NotReadyInTime, Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions
from gantry_launcher.output.terminal import print_state, say
from gantry_launcher.serving.serve import serve

INTERRUPTED = 130
INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start_detached(options: UpOptions, lock: int) -> int:
    """Start the launcher in its own session, and wait until it is ready or fails."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTING)  # until each side handles them
    launcher = os.fork()
    if launcher == 0:
        _become_launcher(options, lock, writing, blocked)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as messages:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            for line in messages:
                kind, value = json.loads(line)
                if kind == "refused":
                    os.waitpid(launcher, 0)
                    raise Refused(value)
                if kind == "late":
                    os.waitpid(launcher, 0)
                    raise NotReadyInTime(value)
                if kind == "ready":
                    print_state(value, as_json=options.json)
                    return 0
                say(value)
        except KeyboardInterrupt:
            say("interrupted; stopping what was started")
            os.kill(launcher, signal.SIGTERM)
            os.waitpid(launcher, 0)
            return INTERRUPTED
    os.waitpid(launcher, 0)
    say(f"the launcher ended; its last messages are in {DataDir(options.data).log}")
    return 1


class _Pipe:
    """Reports to the caller over a pipe. The start continues when the caller no longer reads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(
            descriptor, False
        )  # a stopped caller delays nothing: the pipe has room for all messages

    def say(self, message: str) -> None:
        """Report progress."""
        self._send("say", message)

    def ready(self, state: dict[str, Any]) -> None:
        """Report that the system is ready. This is the last message."""
        self._send("ready", state)
        self.close()

    def refused(self, message: str) -> None:
        """Report why the system cannot start."""
        self._send("refused", message)

    def late(self, message: str) -> None:
        """Report which processes were not ready in time."""
        self._send("late", message)

    def close(self) -> None:
        """Close the pipe, so that the caller continues."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _send(self, kind: str, value: object) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, json.dumps([kind, value]).encode() + b"\n")


def _become_launcher(options: UpOptions, lock: int, writing: int, blocked: Iterable[int]) -> None:
    """Run as the launcher, without the terminal, the pipes and the working directory of the caller."""
    status = 0
    pipe = _Pipe(writing)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.setsid()
        os.chdir(options.data)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        keep = sorted({lock, writing})
        for low, high in zip([2, *keep], [*keep, os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(low + 1, high)
        serve(options, lock, pipe, echo=False)
    except NotReadyInTime as late:
        pipe.late(str(late))
        status = late.exit_status
    except Refused as refused:
        pipe.refused(str(refused))
        status = refused.exit_status
    except KeyboardInterrupt:  # a signal, before anything was started
        status = INTERRUPTED
    except BaseException:  # noqa: BLE001 - no exception may return into the code of the caller after a fork
        status = 1
        _leave_traceback(options)
    finally:
        os._exit(status)


def _leave_traceback(options: UpOptions) -> None:
    """Write the traceback of the launcher into the log, because it has no terminal."""
    with contextlib.suppress(OSError), DataDir(options.data).log.open("a", encoding="utf-8") as log:
        traceback.print_exc(file=log)
