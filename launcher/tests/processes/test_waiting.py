"""Messages of a slow start: missing processes, and what to do about a full disk."""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from gantry_launcher.errors import NotReadyInTime
from gantry_launcher.processes import waiting
from gantry_launcher.processes.waiting import AGAIN_SECONDS, AGAIN_SECONDS_MAX, FIRST_SECONDS, Waiting


def test_the_first_seconds_are_silent_and_repeats_become_rare(tmp_path: Path) -> None:
    start = Waiting([], 100.0)
    assert not start.is_due(100.0 + FIRST_SECONDS)
    now = 100.1 + FIRST_SECONDS
    assert start.is_due(now)
    missing = {"nats": "no answer", "gateway": "x"}
    assert start.message(missing, now) == "still waiting for nats (no answer), gateway (x)"
    assert not start.is_due(now + 1)
    assert start.message(missing, now + 6) is None
    assert start.message({"gateway": "x"}, now + 12) == "still waiting for gateway (x)"
    assert start.message({"gateway": "y"}, now + 18) is None  # its reason changes at every check
    assert start.message({"gateway": "z"}, now + 13 + AGAIN_SECONDS) == "still waiting for gateway (z)"


def test_an_hour_of_waiting_is_a_dozen_lines() -> None:
    start = Waiting([], 0.0)
    said = [at for at in range(6, 3600, 5) if start.message({"gateway": f"look {at}"}, at) is not None]
    assert len(said) <= 12
    pauses = [later - earlier for earlier, later in pairwise(said)]
    assert pauses == sorted(pauses)
    assert max(pauses) <= AGAIN_SECONDS_MAX + FIRST_SECONDS


def test_a_start_that_exceeds_its_timeout_fails_with_the_missing_processes() -> None:
    start = Waiting([], 100.0, 3)
    assert not start.is_due(102.9)
    assert start.is_due(103.0)
    with pytest.raises(NotReadyInTime, match=r"not ready after 3 s: gateway \(broker-a refused\)") as failure:
        start.message({"gateway": "broker-a refused"}, 103.0)
    assert failure.value.exit_status == 1


def test_a_full_disk_is_named_with_what_is_free_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs(tmp_path)
    missing = tmp_path / "missing"
    monkeypatch.setattr(waiting, "ROOM_BYTES_MIN", found.f_bavail * found.f_frsize + (1 << 40))
    words = Waiting([str(missing), str(tmp_path)], 0.0).message({"gateway": "broker-a refused"}, 6.0)
    assert words is not None
    assert words.startswith("still waiting for gateway (broker-a refused); the disk of ")
    assert f"{tmp_path} has " in words
    assert " MiB free; sends are refused below 192 MiB and taken again from " in words
    assert "make room" in words
    assert str(missing) not in words
    monkeypatch.setattr(waiting, "ROOM_BYTES_MIN", 0)
    assert Waiting([str(tmp_path)], 0.0).message({"gateway": "x"}, 6.0) == "still waiting for gateway (x)"
