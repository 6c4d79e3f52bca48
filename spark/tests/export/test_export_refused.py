"""Command lines of exports that are refused: one line, status 2, and no files left. No test here starts Spark."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores_made import StoreMade

from gantry_spark.export.__main__ import REFUSED, main
from gantry_spark.export.command.spark_errors import foreseen
from gantry_spark.export.failures import Failed, Refused
from gantry_spark.source.plan import Lost
from gantry_spark.source.reading import DataLost


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Restore the SIGTERM handler that the command replaces."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A stopped system with one store, whose log has three files."""
    store = StoreMade(tmp_path / "data" / "broker-a", segment_bytes=2048)
    for _ in range(12):
        store.send("orders", b"x" * 300)
    assert len(store.segments) >= 3
    store.write()
    (tmp_path / "data" / "gantry.lock").touch()
    return tmp_path / "data"


def refused(capfd: pytest.CaptureFixture[str], data: Path, out: Path, topic: str = "orders") -> str:
    words = ["--topic", topic, "--to", "parquet", "--out", str(out), "--data", str(data)]
    assert main(words) == REFUSED
    return capfd.readouterr().err.splitlines()[-1]


def test_a_refused_export_leaves_nothing(
    capfd: pytest.CaptureFixture[str], data: Path, tmp_path: Path
) -> None:
    assert "did you mean orders?" in refused(capfd, data, tmp_path / "deep" / "x", "ordres")
    assert "is not a directory" in refused(capfd, tmp_path / "none", tmp_path / "deep" / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    (tmp_path / "mine").mkdir()  # an empty folder of the user stays, and stays empty
    refused(capfd, data, tmp_path / "mine", "ordres")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_table_in_a_data_directory_is_refused(
    capfd: pytest.CaptureFixture[str], data: Path, tmp_path: Path
) -> None:
    assert "the data directory" in refused(capfd, data, data / "x")
    assert "the data directory of a system" in refused(capfd, tmp_path / "none", data / "x")
    assert not (data / "x").exists()


def test_a_gap_in_the_log_names_the_option_of_the_export(
    capfd: pytest.CaptureFixture[str], data: Path, tmp_path: Path
) -> None:
    (data / "broker-a" / "commitlog" / f"{2048:020d}").unlink()
    message = refused(capfd, data, tmp_path / "x")
    assert "broker-a: positions 2048 to 4096 (2048 bytes)" in message
    assert "--accept-loss" in message
    assert not (tmp_path / "x").exists()


def test_an_error_in_a_task_is_one_line_too() -> None:
    page = f"Traceback …\ngantry_spark.reading.DataLost: {DataLost([Lost('broker-a', 0, 2048)])}\n\tat org.apache…"
    message = foreseen(RuntimeError(page))
    assert isinstance(message, Failed)
    assert str(message).endswith("positions 0 to 2048 (2048 bytes). Continue without them by --accept-loss")
    assert foreseen(RuntimeError("Job aborted")) is None
    assert isinstance(foreseen(Refused("no")), Refused)
