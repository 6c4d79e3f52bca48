"""docs/spark.md, from nothing to a chart: its lines, run as they are written (only the places differ)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pyarrow.dataset as ds
import pytest

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 900


def lines() -> str:
    """The commands of the walk-through, without those that start and stop the system."""
    section = (ROOT / "docs/spark.md").read_text().split("## From nothing to a chart")[1].split("\n## ")[0]
    blocks = "".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
    commands = [line for line in blocks.splitlines() if line not in {"./gantry up --detach", "./gantry down"}]
    assert len(commands) == 7
    return "\n".join(commands)


@pytest.mark.cluster
@pytest.mark.timeout(SECONDS_MAX + 300)
def test_the_walk_through_ends_with_a_report_a_chart_and_a_table(
    quick_java: None, new_system, tmp_path: Path
) -> None:
    system = new_system()
    script = re.sub(r"(\./gantry .*)", rf"\1 --data {system['data']}", lines())
    script = script.replace("orders_by_minute.py data", f"orders_by_minute.py {system['data']}")
    for place in ("reports/today", "orders.svg", "orders.ddl", "exports/orders"):
        script = re.sub(rf"(?<=[ ]){re.escape(place)}(?=[\s]|$)", f"{tmp_path}/{place}", script)
    ran = subprocess.run(
        ["bash", "-c", f"set -e\n{script}"], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "10 orders in " in ran.stdout
    assert (tmp_path / "orders.svg").read_text().startswith("<svg")
    assert "http" not in (tmp_path / "reports/today/report.html").read_text().replace("http://www.w3.org", "")
    orders = ds.dataset(tmp_path / "exports/orders", partitioning="hive").to_table()
    assert sorted(orders.column("id").to_pylist()) == list(range(1, 10))
    dead = ds.dataset(tmp_path / "exports/orders_dlq", partitioning="hive").to_table()
    assert dead.column("body").to_pylist() == [b"no JSON"]
