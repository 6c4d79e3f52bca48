"""The launcher in a process of its own, which tells its caller over a pipe how the start went (`up --detach`)."""

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
from gantry_launcher.serve import serve
from gantry_launcher.terminal import print_state, say

INTERRUPTED = 130
INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start_detached(options: UpOptions, lock: int) -> int:
    """Start the launcher in a session of its own, and wait for its word."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTING)  # until each side knows what to do then
    launcher = os.fork()
    if launcher == 0:
        _become_launcher(options, lock, writing, blocked)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as words:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            for line in words:
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
    say(f"the launcher ended; its last words are in {DataDir(options.data).log}")
    return 1


class _Pipe:
    """Tells the caller over a pipe; when nobody reads any more, it is up all the same."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(
            descriptor, False
        )  # a caller that is stopped holds up nothing; its pipe has room for all words

    def say(self, words: str) -> None:
        """Tell progress."""
        self._tell("say", words)

    def ready(self, state: dict[str, Any]) -> None:
        """Tell that it is up, which is the last word."""
        self._tell("ready", state)
        self.close()

    def refused(self, words: str) -> None:
        """Tell why it cannot start."""
        self._tell("refused", words)

    def late(self, words: str) -> None:
        """Tell who was not ready in time."""
        self._tell("late", words)

    def close(self) -> None:
        """Let the caller go."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _tell(self, kind: str, value: object) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, json.dumps([kind, value]).encode() + b"\n")


def _become_launcher(options: UpOptions, lock: int, writing: int, blocked: Iterable[int]) -> None:
    """Go on as the launcher, holding nothing of the caller: not its terminal, its pipes, nor its folder."""
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
    except BaseException:  # noqa: BLE001 - nothing may climb back into the caller's code after a fork
        status = 1
        _leave_traceback(options)
    finally:
        os._exit(status)


def _leave_traceback(options: UpOptions) -> None:
    """Write what went wrong in the launcher itself into the log; it has no terminal."""
    with contextlib.suppress(OSError), DataDir(options.data).log.open("a", encoding="utf-8") as log:
        traceback.print_exc(file=log)
