"""Every service starts without standard streams, as a process manager may start it."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("service", ["nameserver", "broker_store", "gateway", "scheduler", "txn_checker"])
@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), (["--set", "no_such=1"], 2)])
def test_a_service_without_standard_streams_prints_into_the_void(
    service: str, words: list[str], status: int
) -> None:
    command = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', sys.executable, "-m", service, *words]
    assert subprocess.run(command, timeout=60, check=False).returncode == status
