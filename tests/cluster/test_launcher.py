"""The launcher with a real system: what scripts may rely on in `up`, `status` and `down`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
LAUNCHER = ROOT / "gantry"


def call(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def all_pids(state: dict[str, Any]) -> list[int]:
    return [pid for pids in state["pids"].values() for pid in pids] + [
        broker["pid"] for broker in state["brokers"]
    ]


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def until(condition, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.02)


def test_the_json_line_has_the_documented_shape(system) -> None:
    assert system["ready"] is True
    assert system["seconds"] > 0
    assert system["http"].startswith("http://127.0.0.1:")
    assert system["nats"].startswith("nats://")
    assert system["redis"].startswith("redis://")
    broker = system["brokers"][0]
    assert broker["name"] == "broker-a"
    port = int(broker["address"].removeprefix("127.0.0.1:"))
    assert broker["http"] == f"http://127.0.0.1:{port + 2}"
    assert Path(broker["store"], "commitlog").is_dir()
    assert set(system["pids"]) == {
        "launcher",
        "nats",
        "redis",
        "nameserver",
        "scheduler",
        "txn-checker",
        "gateway",
    }
    assert all(is_alive(pid) for pid in all_pids(system))


def test_status_reports_the_same_with_live_pids_at_low_cost(system, gantry) -> None:
    states: list[dict[str, Any]] = []

    def is_all_ready() -> bool:
        ran = gantry("status", "--data", system["data"], "--json")
        assert ran.returncode == 0
        assert ran.stdout.count("\n") == 1
        states.append(json.loads(ran.stdout))
        return all(process["health"] == "ready" for process in states[-1]["processes"])

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    until(is_all_ready)  # a busy process may exceed the probe's timeout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    state = states[-1]
    for key in ("http", "nameserver", "nats", "redis"):
        assert state[key] == system[key]
    processes = {process["name"]: process for process in state["processes"]}
    assert set(processes) == {
        "nats",
        "redis",
        "nameserver",
        "broker-a",
        "scheduler",
        "txn-checker",
        "gateway",
    }
    for process in processes.values():
        assert process["rssBytes"] > 1_000_000
        assert process["restarts"] == 0
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used / len(states) < 0.5, "it must answer within 0.5 s on an idle machine"


def test_background_processes_keep_no_descriptor_of_the_caller(system) -> None:
    for pid in system["pids"]["launcher"]:
        aims = [str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in (0, 1, 2)]
        assert aims == ["/dev/null"] * 3
    for pid in all_pids(system):
        assert not [aim for aim in open_files(pid) if aim.startswith("/dev/pts")]


def open_files(pid: int) -> Iterator[str]:
    """The targets of a process's descriptors; a running process closes some during the read."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(entry.readlink())


def test_a_second_up_on_the_same_directory_is_refused_in_one_line(system, gantry) -> None:
    ran = gantry("up", "--free-ports", "--data", system["data"])
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert "in use" in ran.stderr


def test_a_taken_port_is_refused_in_one_line_and_nothing_is_left_running(gantry, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = gantry("up", "--free-ports", "--detach", "--data", str(data), "--set", f"gateway.port={port}")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"gantry: port {port} (gateway) on 127.0.0.1 is taken; stop what uses it, or take --free-ports or --port-base N\n"
    )
    assert not data.exists()
    assert gantry("status", "--data", str(data)).returncode == 1


def test_a_time_limit_on_a_detached_start_leaves_nothing_running(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [sys.executable, str(LAUNCHER), "up", "--free-ports", "--detach", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: (data / "logs" / "gantry.log").exists() or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=90)
    assert (process.returncode, out) == (130, "")
    assert "gantry: interrupted; stopping what was started\n" in err
    with (data / "gantry.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_setting_refused_by_the_service_gives_one_line_and_leaves_nothing_running(
    gantry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_STORE_TOPIC_QUEUES_DEFAULT", "0")
    ran = gantry("up", "--free-ports", "--detach", "--data", str(tmp_path))
    assert ran.returncode == 2
    lines = [
        line for line in ran.stderr.splitlines() if "still waiting for" not in line
    ]  # printed on a busy machine
    assert len(lines) == 1
    assert "topic_queues_default" in lines[0]
    with (tmp_path / "gantry.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_directory_that_cannot_be_created_is_refused_in_one_line(gantry, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for data in (tmp_path / "file" / "data", tmp_path / "file"):
        ran = gantry("up", "--free-ports", "--data", str(data))
        assert ran.returncode == 2
        assert ran.stderr.count("\n") == 1
        assert "a file of that name is in the way" in ran.stderr


def test_down_stops_everything_and_reports_it(new_system, gantry) -> None:
    state = new_system("--brokers", "2", "--gateway-workers", "2")
    assert [broker["name"] for broker in state["brokers"]] == ["broker-a", "broker-b"]
    assert len(state["pids"]["gateway"]) == 2
    ran = gantry("down", "--data", state["data"])
    assert (ran.returncode, ran.stderr) == (0, "gantry: stopped\n")
    assert not [pid for pid in all_pids(state) if is_alive(pid)]
    assert gantry("status", "--data", state["data"]).returncode == 1
    assert gantry("down", "--data", state["data"]).returncode == 0


def test_a_killed_process_of_any_kind_restarts_on_its_old_ports(new_system, gantry) -> None:
    state = new_system()
    call("PUT", f"{state['http']}/v1/topics/orders", {"readQueues": 1, "writeQueues": 1, "perm": "rw"})
    message = {"messages": [{"body": "kept"}]}
    call("POST", f"{state['http']}/v1/topics/orders/messages", message)
    for pid in [state["brokers"][0]["pid"]] + [
        state["pids"][name][0]
        for name in ("gateway", "scheduler", "txn-checker", "nameserver", "nats", "redis")
    ]:
        os.kill(pid, signal.SIGKILL)

    def status() -> dict[str, Any]:
        return json.loads(gantry("status", "--data", state["data"], "--json").stdout)

    until(lambda: [p["restarts"] for p in status()["processes"]] == [1] * 7 and status()["ready"])
    again = status()
    assert {key: again[key] for key in ("http", "nameserver", "nats", "redis")} == {
        key: state[key] for key in ("http", "nameserver", "nats", "redis")
    }
    assert again["brokers"][0]["address"] == state["brokers"][0]["address"]

    def found() -> bool:
        try:
            path = "/v1/topics/orders/queues/broker-a/0/messages?offset=0"
            return call("GET", state["http"] + path)["messages"][0]["body"] == "kept"
        except OSError:
            return False

    until(found)
    log = Path(state["data"], "logs", "gantry.log").read_text()
    assert "broker-a died (SIGKILL); starting it again on its old ports" in log


def test_a_system_ends_after_its_launcher_is_killed_and_can_be_restarted(new_system, gantry) -> None:
    state = new_system()
    os.kill(state["pids"]["launcher"][0], signal.SIGKILL)
    again = new_system()  # waits for the remaining processes of the first
    assert not [pid for pid in all_pids(state) if is_alive(pid)]
    assert all(is_alive(pid) for pid in all_pids(again))
    del gantry


@pytest.mark.parametrize("times", [1, 2], ids=["once", "passed on by who started it"])
def test_ctrl_c_stops_a_foreground_system_cleanly_and_leaves_nothing_running(
    tmp_path: Path, times: int
) -> None:
    command = [
        sys.executable,
        str(LAUNCHER),
        "up",
        "--free-ports",
        "--json",
        "--data",
        str(tmp_path / "data"),
    ]
    with (
        (tmp_path / "err").open("w") as err,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=err, stdin=subprocess.DEVNULL, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (tmp_path / "err").read_text()
            state = json.loads(line)
            for _ in range(
                times
            ):  # a wrapper in the same process group forwards the signal that the terminal sent to all
                process.send_signal(signal.SIGINT)
                time.sleep(0.02)
            assert process.stdout.read() == ""
            assert process.wait(90) == 0
        finally:
            process.kill()
    assert not [pid for pid in all_pids(state) if is_alive(pid)]
    said = (tmp_path / "err").read_text()
    assert "gateway    | " in said
    assert "killing it" not in said
    assert said.endswith("gantry     | stopped\n")


def test_every_service_listens_only_on_loopback_by_default(system) -> None:
    listening = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ours = {f"{int(address.rsplit(':', 1)[1]):04X}" for address in _addresses(system)}
    bound = {
        line.split()[1] for line in listening if line.split()[3] == "0A" and line.split()[1][-4:] in ours
    }
    assert len(bound) >= len(ours)
    assert all(address.startswith("0100007F:") for address in bound)


def _addresses(state: dict[str, Any]) -> list[str]:
    broker = state["brokers"][0]
    return [
        state["http"],
        state["nameserver"],
        state["nats"],
        state["redis"].removesuffix("/0"),
        broker["address"],
        broker["http"],
    ]


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"], ids=["no stdin", "no stream at all"])
def test_a_caller_without_standard_streams_gets_a_whole_system(gantry, tmp_path: Path, closed: str) -> None:
    """As started by cron, CI and process managers: the first opened files must not get the descriptors of the streams."""
    data = tmp_path / "data"
    words = f'"{sys.executable}" "{LAUNCHER}" up --free-ports --detach --data "{data}" {closed}'
    try:
        assert subprocess.run(["sh", "-c", words], timeout=200, check=False).returncode == 0
        state = json.loads(gantry("status", "--data", str(data), "--json").stdout)
        assert all(is_alive(pid) for pid in all_pids(state))
        assert len(state["processes"]) == len(all_pids(state)) - 1
    finally:
        assert gantry("down", "--data", str(data)).returncode == 0
