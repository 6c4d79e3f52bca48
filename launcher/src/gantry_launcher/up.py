"""`up`: have everything installed, claim the data directory, start the system, say when it is ready.

With --detach the launcher moves into a process of its own, which tells the caller over a pipe how it went.
"""

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from gantry_launcher import control, install
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions
from gantry_launcher.output import Output
from gantry_launcher.plan import SystemPlan, make_plan
from gantry_launcher.ports import Ports
from gantry_launcher.supervisor import Supervisor

DYING_SECONDS_MAX = 45.0
LOOPBACKS = ("127.", "::1", "localhost")


class Reporter(Protocol):
    """Who is told how the start goes."""

    def say(self, words: str) -> None:
        """Tell progress."""
        ...

    def ready(self, state: dict[str, Any]) -> None:
        """Tell that it is up, and where."""
        ...


def up(options: UpOptions) -> int:
    """Run the command; returns its exit status, or raises Refused."""
    install.ensure(install.RUN_LOCK, say)
    lock = _claim(DataDir(options.data))
    try:
        if options.detach:
            return _detached(options, lock)
        _serve(options, lock, _Terminal(options), echo=True)
        return 0
    finally:
        os.close(lock)


def say(words: str) -> None:
    """Say something about progress: always on stderr."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"gantry: {words}\n")
        sys.stderr.flush()


def _claim(data: DataDir) -> int:
    """Make the data directory and take its lock; the descriptor holds it. Raises Refused."""
    try:
        data.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(data.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Refused(f"cannot use the data directory {data.path}: {error.strerror}") from error
    until = time.monotonic() + DYING_SECONDS_MAX
    told = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if _has_launcher(data) or time.monotonic() > until:
                os.close(lock)
                raise Refused(
                    f"the data directory {data.path} is in use; ./gantry down --data {data.path}"
                ) from None
            if not told:
                say("waiting for what is left of an earlier run in this data directory")
            told = True
            time.sleep(0.05)
        else:
            return lock


def _has_launcher(data: DataDir) -> bool:
    """Whether a launcher answers for the directory; one that is just starting answers within moments."""
    for _ in range(10):
        answer = control.ask(data.path, "status")
        if answer is not None:
            answer[1].close()
            return True
        time.sleep(0.05)
    return False


def _serve(options: UpOptions, lock: int, reporter: Reporter, *, echo: bool) -> None:
    """Run the system in this process until it is stopped."""
    hosts = (options.listen,) if options.listen.startswith(LOOPBACKS) else ("127.0.0.1", options.listen)
    ports = Ports(hosts)
    output: Output | None = None
    try:
        plan = make_plan(options, ports)
        listener = control.listen(options.data)
        output = Output(DataDir(options.data).log, echo=echo)
        Supervisor(plan, output, lock, listener, options.asked_at).run(
            _on_ready(plan, output, reporter), reporter.say
        )
        output.line("gantry", "stopped")
    finally:
        ports.close()
        if output is not None:
            output.close()


def _on_ready(plan: SystemPlan, output: Output, reporter: Reporter) -> Callable[[dict[str, Any]], None]:
    def tell(state: dict[str, Any]) -> None:
        output.line("gantry", f"ready after {state['seconds']} s at {plan.http}")
        if not plan.listen.startswith(LOOPBACKS):
            output.line(
                "gantry",
                f"listening on {plan.listen}, and there is no access control: anyone may send and read",
            )
        reporter.ready(state)

    return tell


class _Terminal:
    """Tells the caller in this process."""

    def __init__(self, options: UpOptions) -> None:
        self._json = options.json

    def say(self, words: str) -> None:
        say(words)

    def ready(self, state: dict[str, Any]) -> None:
        print_state(state, as_json=self._json)


class _Pipe:
    """Tells the caller over a pipe; when nobody reads any more, it is up all the same."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, words: str) -> None:
        self._tell("say", words)

    def ready(self, state: dict[str, Any]) -> None:
        self._tell("ready", state)
        self.close()

    def refused(self, words: str) -> None:
        self._tell("refused", words)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _tell(self, kind: str, value: object) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, json.dumps([kind, value]).encode() + b"\n")


def _detached(options: UpOptions, lock: int) -> int:
    """Start the launcher in a session of its own, and wait for its word."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        _become_launcher(options, lock, writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as words:
        try:
            for line in words:
                kind, value = json.loads(line)
                if kind == "refused":
                    os.waitpid(launcher, 0)
                    raise Refused(value)
                if kind == "ready":
                    print_state(value, as_json=options.json)
                    return 0
                say(value)
        except KeyboardInterrupt:
            os.kill(launcher, signal.SIGTERM)
            os.waitpid(launcher, 0)
            return 130
    os.waitpid(launcher, 0)
    say(f"the launcher ended; its last words are in {DataDir(options.data).log}")
    return 1


def _become_launcher(options: UpOptions, lock: int, writing: int) -> None:
    """Go on as the launcher, holding nothing of the caller: not its terminal, its pipes, nor its folder."""
    status = 0
    pipe = _Pipe(writing)
    try:
        os.setsid()
        os.chdir(options.data)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        keep = sorted({lock, writing})
        for low, high in zip([2, *keep], [*keep, os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(low + 1, high)
        _serve(options, lock, pipe, echo=False)
    except Refused as refused:
        pipe.refused(str(refused))
        status = 2
    except BaseException:  # noqa: BLE001 - nothing may climb back into the caller's code after a fork
        status = 1
        _leave_traceback(options)
    finally:
        os._exit(status)


def _leave_traceback(options: UpOptions) -> None:
    """Write what went wrong in the launcher itself into the log; it has no terminal."""
    import traceback

    with contextlib.suppress(OSError), DataDir(options.data).log.open("a", encoding="utf-8") as log:
        traceback.print_exc(file=log)


def print_state(state: dict[str, Any], *, as_json: bool) -> None:
    """Print where everything is: one JSON line, or lines for people."""
    if as_json:
        lines = [json.dumps(state, separators=(",", ":"))]
    else:
        lines = [
            f"gantry is ready after {state['seconds']} s",
            f"  HTTP        {state['http']}   (calls at {state['http']}/docs)",
            f"  nameserver  {state['nameserver']}",
            *(
                f"  {broker['name']:<11} {broker['address']}   in {broker['store']}"
                for broker in state["brokers"]
            ),
        ]
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
