"""gantrymq.testing: a real system for a block or for a run of pytest, always stopped at the end."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gantrymq.testing import System, SystemFailed, SystemOptions, launcher, system

SOURCES = os.pathsep.join(
    str(launcher().parent / part) for part in ("client/src", "libs/wire/src", "libs/link/src")
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCES}
PROGRAM = """
import gantrymq.testing, sys, time
with gantrymq.testing.system(start_seconds_max=float(sys.argv[1])) as running:
    print(running.data, running.nameserver, flush=True)
    time.sleep(600)
"""


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def wait_until_gone(address: str) -> None:
    until = time.monotonic() + 60
    while answers(address):
        assert time.monotonic() < until, f"{address} still answers"
        time.sleep(0.1)


def test_the_fixture_gives_addresses_that_answer(gantry_broker: System) -> None:
    assert len(gantry_broker.brokers) == 2
    addresses = [gantry_broker.nameserver, gantry_broker.http.removeprefix("http://")]
    assert all(answers(one) for one in [*addresses, *(broker.address for broker in gantry_broker.brokers)])
    assert gantry_broker.status()["ready"]
    assert gantry_broker.log.is_file()


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_the_system_ends_with_the_program_that_started_it(number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as program:  # fmt: skip
        assert program.stdout is not None
        data, nameserver = program.stdout.readline().split()
        assert answers(nameserver)
        program.send_signal(number)
        try:
            program.wait(90)
        finally:
            program.kill()
        wait_until_gone(nameserver)
    assert Path(data).exists() is (number == signal.SIGKILL)
    shutil.rmtree(data, ignore_errors=True)


def test_a_failed_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(SystemFailed, match="no_such_setting"), system(settings={"gateway.no_such_setting": "1"}, data=tmp_path):  # fmt: skip
        pass


def test_an_invalid_checkout_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_HOME", str(tmp_path))
    with pytest.raises(SystemFailed, match=f"no launcher {tmp_path}/gantry; set GANTRY_HOME"), system():
        pass


def test_an_unknown_option_is_refused_before_anything_starts() -> None:
    with pytest.raises(TypeError, match="broker_count"), system(broker_count=3):
        pass


def test_options_of_the_command_line(tmp_path: Path) -> None:
    test = tmp_path / "test_own.py"
    test.write_text(
        "def test_it(gantry_options):\n    assert (gantry_options.brokers, gantry_options.flush) == (3, 'async')\n"
    )
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "gantrymq.testing",
        "--gantry-brokers=3",
        "--gantry-flush=async",
    ]
    command = [*words, "-c", os.devnull, "--rootdir", str(tmp_path), str(test)]
    ran = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_defaults() -> None:
    assert SystemOptions() == SystemOptions(
        brokers=1, flush="sync", gateway_workers=1, settings={}, data=None
    )
