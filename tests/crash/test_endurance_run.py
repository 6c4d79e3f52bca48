"""A short endurance run: it starts, kills, counts, judges and writes its page. On request: `./gantry test -m soak tests/crash/test_endurance_run.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_short_endurance_run_breaks_no_guarantee_and_writes_its_page(tmp_path: Path, seed: int) -> None:
    words = "--minutes 1 --pending 5000 --kill-seconds 8 --keep-minutes 0.3 --segment-megabytes 1"
    ran = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "soak" / "endurance.py"), *words.split(), "--seed", str(seed),
         "--out", str(tmp_path / "out"), "--data", str(tmp_path)],
        capture_output=True, text=True, timeout=1500, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    report = json.loads((tmp_path / "out" / "endurance.json").read_text())
    guarantees = (
        "lost",
        "doubled",
        "early",
        "forbidden",
        "foreign",
        "taken_again",
        "disordered",
        "agedOutUnread",
    )
    assert [report["count"][guarantee] for guarantee in guarantees] == [0] * len(guarantees), ran.stdout
    assert report["count"]["acknowledged"] > 500
    assert report["count"]["retentionTookBytes"] > 0
    assert report["kills"]
    assert not report["faults"]
    page = (tmp_path / "out" / "endurance.html").read_text()
    assert page.count("<svg") > 8
