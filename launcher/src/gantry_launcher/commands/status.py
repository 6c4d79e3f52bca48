"""`status` and `down`: show the processes of a data directory and their health, and stop them cleanly."""

import fcntl
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gantry_launcher.access.exposure import AccessControl
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.output.replica_lines import lines_of
from gantry_launcher.output.terminal import say, write_out
from gantry_launcher.planning.health import Check, ask
from gantry_launcher.planning.roles import View, add_roles, view_of
from gantry_launcher.processes import control
from gantry_launcher.serving.ending import STOP_SECONDS_MAX, end_launcher, unresponsive

HEALTH_SECONDS_MAX = 0.3
RELEASE_SECONDS_MAX = 5.0
"""The time after the end of the launcher in which the kernel releases the lock of the last process."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def status(data: Path, *, as_json: bool) -> int:
    """Print what runs; exit status 1 when nothing does, or when the launcher does not answer."""
    answer = control.ask(data, "status")
    if not isinstance(answer, control.Answer):
        return _no_state(data, answer, as_json=as_json)
    state = answer.state
    answer.connection.close()
    known = state["processes"]
    state["processes"] = _processes(known)
    _add_roles(state["brokers"], known)
    state["ready"] = all(process["health"] == "ready" for process in state["processes"])
    write_out(json.dumps(state) + "\n" if as_json else _table(state))
    return 0


def _no_state(data: Path, answer: control.Unresponsive | None, *, as_json: bool) -> int:
    state: dict[str, Any] = {"ready": False, "processes": []}
    if answer is not None:
        answer.connection.close()
        say(f"{unresponsive(answer, data)}; its services may still run")
        state["unresponsiveLauncher"] = answer.launcher_pid
    elif not as_json:
        say(f"nothing runs with the data directory {data}")
    if as_json:
        write_out(json.dumps(state) + "\n")
    return 1


def down(data: Path) -> int:
    """Stop what runs with a data directory and wait for its end; exit status 1 when it did not end in time, 0 when there was nothing to stop."""
    answer = control.ask(data, "stop")
    if answer is None and not _is_locked(data):
        say(f"nothing runs with the data directory {data}")
        return 0
    until = time.monotonic() + STOP_SECONDS_MAX
    if answer is not None:
        try:
            _end(answer, data)
        finally:
            answer.connection.close()
        until = max(until, time.monotonic() + RELEASE_SECONDS_MAX)
    while _is_locked(data):
        if time.monotonic() > until:
            say("it did not end: a process is stuck, most likely in a disk that does not answer")
            return 1
        time.sleep(0.02)
    say("stopped")
    return 0


def _end(launcher: control.Answer | control.Unresponsive, data: Path) -> None:
    """Wait until a launcher that answered ends; end one that does not answer, or does not end in time."""
    if isinstance(launcher, control.Answer):
        launcher.connection.settimeout(STOP_SECONDS_MAX)
        try:
            launcher.connection.recv(1)
        except TimeoutError:
            say("the launcher does not end by itself")
        except OSError:
            return
        else:
            return
    elif launcher.launcher_pid is None:
        raise Refused(f"{unresponsive(launcher, data)}, and end it with kill -9")
    else:
        say(f"the launcher (pid {launcher.launcher_pid}) does not answer; ending it and its services")
    if launcher.launcher_pid:  # 0: of another pid namespace
        end_launcher(launcher.connection, launcher.launcher_pid)


def _is_locked(data: Path) -> bool:
    try:
        lock = os.open(DataDir(data).lock_file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _processes(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check the health of all processes at once."""
    with ThreadPoolExecutor(len(known)) as pool:
        return list(pool.map(_process, known))


def _add_roles(brokers: list[dict[str, Any]], known: list[dict[str, Any]]) -> None:
    """Ask all replicas at once who leads."""
    replicas = {one["process"] for broker in brokers for one in broker.get("replicas", [])}
    checks = {one["name"]: Check(**one["check"]) for one in known if one["name"] in replicas}
    if checks:
        with ThreadPoolExecutor(len(checks)) as pool:
            views = pool.map(_view, checks.values())
            add_roles(brokers, dict(zip(checks, views, strict=True)))


def _view(check: Check) -> View | None:
    return view_of(check, HEALTH_SECONDS_MAX)


def _process(known: dict[str, Any]) -> dict[str, Any]:
    pid = known["pid"]
    health = "down" if pid is None else ask(Check(**known["check"]), HEALTH_SECONDS_MAX).message
    return {
        "name": known["name"],
        "pid": pid,
        "health": health,
        "rssBytes": _resident_bytes(pid),
        "pssBytes": _proportional_bytes(pid),
        "restarts": known["restarts"],
    }


def _resident_bytes(pid: int | None) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional_bytes(pid: int | None) -> int:
    """Return the proportional memory (PSS) of a process; 0 without permission to read it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def _table(state: dict[str, Any]) -> str:
    lines = [f"{'process':<14}{'pid':>8}  {'memory':>9}  {'restarts':>8}  health"]
    for process in state["processes"]:
        memory = f"{process['rssBytes'] / 1e6:.1f} MB"
        lines.append(
            f"{process['name']:<14}{process['pid'] or '-':>8}  {memory:>9}  {process['restarts']:>8}  {process['health']}"
        )
    lines += [line for broker in state["brokers"] for line in lines_of(broker)]
    grpc = f"gRPC {state['grpc']}   " if state.get("grpc") else ""
    lines += [f"HTTP {state['http']}   {grpc}nameserver {state['nameserver']}"]
    lines += [AccessControl(state["accessControl"]).words(state["listen"])]
    return "\n".join(lines) + "\n"
