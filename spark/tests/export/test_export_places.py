"""Checks before the first write: who owns the folder, what it contains, and how far each log may be read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gantry_spark.export import places
from gantry_spark.export.command.options import parse
from gantry_spark.export.failures import Refused
from gantry_spark.export.reach import reach
from gantry_spark.export.tables.table import Mark


def options(out: Path, *more: str):
    return parse(["--topic", "orders", "--to", "parquet", "--out", str(out), "--data", "d", *more])


def agree(out: Path, *more: str, body: dict | None = None) -> dict:
    asked = options(out, *more)
    holds = places.agree(out, places.prepare(out), places.wanted(asked, body))
    places.keep(out, holds)
    return holds


def test_a_new_folder_is_created_and_an_existing_one_continued(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "orders"
    agree(out, "--from-time", "1767225600000")
    assert agree(out)["fromMs"] == 1767225600000  # a later run may omit it


@pytest.mark.parametrize(
    ("more", "body", "says"),
    [
        (["--topic", "more"], None, "was exported with --topic orders"),
        (["--to", "delta"], None, "was exported with --to parquet"),
        ([], {"type": "struct", "fields": []}, "was exported with no --json-schema"),
        (["--to-time", "1767225600000"], None, "was exported with no --to-time"),
    ],
)
def test_a_folder_with_another_table_is_refused(tmp_path: Path, more, body, says: str) -> None:
    agree(tmp_path / "x")
    with pytest.raises(Refused, match=says):
        agree(tmp_path / "x", *more, body=body)


def test_unsuitable_folders_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").touch()
    (tmp_path / "file").touch()
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    for name, says in (
        ("photos", "not an export (cat.png…)"),
        ("file", "is a file"),
        ("file/below", "is not a folder"),
        ("store", "belongs to a store"),
        ("store/export", "belongs to a store"),
    ):
        with pytest.raises(Refused) as refused:
            places.prepare(tmp_path / name)
        assert says in str(refused.value)
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.png"]
    with pytest.raises(Refused, match="cannot write in /proc/"):
        places.prepare(Path("/proc/export"))


def view(first: int, end: int, log_id: str = "a"):
    return SimpleNamespace(broker="broker-a", log_id=log_id, min_position=first, end_position=end)


def test_a_first_run_reads_everything_and_the_next_only_new_messages() -> None:
    first = reach([view(100, 500)], {}, accept_loss=False)
    assert (first.start, first.marks, first.bytes) == ({"broker-a": 100}, {"broker-a": Mark("a", 500)}, 400)
    then = reach([view(200, 800)], first.marks, accept_loss=False)
    assert (then.start, then.bytes, then.lost) == ({"broker-a": 500}, 300, ())


@pytest.mark.parametrize(
    ("now", "says", "start"),
    [
        (view(600, 900), "has deleted positions 500 to 600", 600),
        (view(0, 400), "ends at 400, but was exported up to 500", 400),
        (view(0, 900, "b"), "differs from the exported one", 0),
    ],
)
def test_a_log_that_does_not_continue_is_never_ignored(now, says: str, start: int) -> None:
    marks = {"broker-a": Mark("a", 500)}
    with pytest.raises(Refused, match=says):
        reach([now], marks, accept_loss=False)
    accepted = reach([now], marks, accept_loss=True)
    assert accepted.start == {"broker-a": start}
    assert says in accepted.lost[0]
