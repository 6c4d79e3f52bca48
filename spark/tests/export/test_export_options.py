"""The command line of the export: what it refuses, with which message, and what works with nothing installed."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gantry_spark.export.command.options import parse
from gantry_spark.export.failures import Refused

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WHOLE = ["--topic", "orders", "--to", "parquet", "--out", "x", "--data", "d"]


def test_options_are_parsed() -> None:
    parsed = parse(
        [*WHOLE, "--topic", "b", "--topic", "orders", "--from-time", "-2h", "--to-time=2026-02-01"], NOW
    )
    assert parsed.topics == ("orders", "b")
    assert parsed.places == [str(Path("d").absolute())]
    assert parsed.out == Path("x").absolute()
    assert (parsed.from_ms, parsed.to_ms) == (1769853600000, 1769904000000)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--topic", "orders"], "--out DIR"),
        (["--out", "x", "--data", "d"], "--topic T --to parquet|delta|iceberg"),
        (WHOLE[:-2], "--data DIR of a system, or --store DIR"),
        ([*WHOLE, "--to", "csv"], "invalid choice: 'csv'"),
        ([*WHOLE, "--from-time", "soon"], "'soon' is not a time like 2026-01-31T12:00:00Z"),
        ([*WHOLE, "--from-time", "now", "--to-time", "-1d"], "the range is empty"),
        ([*WHOLE, "--prefix", "b_"], "--json-schema, which is not given"),
        ([*WHOLE, "--compact"], "--compact takes only --out"),
        ([*WHOLE, "--every", "0"], "is not a number from 1 to 86400"),
        ([*WHOLE, "--topik", "x"], "unrecognized arguments: --topik x"),
    ],
)
def test_contradictory_options_are_refused_in_one_line(words: list[str], says: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(words, NOW)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_help_and_a_wrong_option_need_only_python() -> None:
    sources = [str(Path(__file__).parents[3] / folder) for folder in ("spark/src", "libs/wire/src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sources)}
    command = [sys.executable, "-S", "-m", "gantry_spark.export"]
    parsed = subprocess.run(
        [*command, "--help"], capture_output=True, text=True, check=False, env=environment
    )
    assert parsed.returncode == 0, parsed.stderr
    assert parsed.stdout.startswith("usage: ./gantry export")
    parsed = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (parsed.returncode, parsed.stderr) == (2, "gantry: name the folder of the table: --out DIR\n")
