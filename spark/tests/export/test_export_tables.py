"""The three kinds of tables: rows written, read back by the kind's own library, merged, and killed at every step of every commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from export_made import LOG, job, paths, read_back, rows, run, staged, table_of

from gantry_spark.export import committing, compaction
from gantry_spark.export.failures import Failed, Refused
from gantry_spark.export.tables.table import Mark

KINDS = ["parquet", "delta", "iceberg"]
ALL = list(range(0, 1000, 100))


@pytest.mark.parametrize("kind", KINDS)
def test_runs_continue_where_the_last_one_committed(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "orders"
    run(out, kind, ALL, 450)
    assert read_back(out, kind) == ALL[:5]
    run(out, kind, ALL, 450)
    run(out, kind, ALL, 1000)
    run(out, kind, ALL, 700, broker="broker-b")
    assert read_back(out, kind) == sorted(ALL + ALL[:7])
    table = table_of(out, kind)
    assert table.marks() == {"broker-a": Mark(LOG, 1000), "broker-b": Mark(LOG, 700)}
    assert paths(table.files()) == [
        f"{table.root}dt=2026-01-01/broker={broker}/part-{broker}-{LOG}-{first:020d}-{last:020d}.parquet"
        for broker, first, last in (("broker-a", 0, 400), ("broker-a", 500, 900), ("broker-b", 0, 600))
    ]
    assert sorted(path.name for path in (out / "_gantry").iterdir()) == sorted(
        {"parquet": ["manifest.json"], "delta": ["logs.json"], "iceberg": []}[kind]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_in_the_partition_of_their_day_and_broker(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "orders"
    table = table_of(out, kind)
    mixed = rows([1, 2, 3, 4], days=[0, 1, 0, 2]), rows([5], broker="broker-b", days=[1])
    done = staged(job(out, kind), *mixed)
    committing.add(out, table, done.files, {"broker-a": Mark(LOG, 10)})
    assert [(file.dt, file.broker, file.first, file.last, file.rows) for file in table.files()] == [
        ("2026-01-01", "broker-a", 1, 3, 2),
        ("2026-01-02", "broker-a", 2, 2, 1),
        ("2026-01-03", "broker-a", 4, 4, 1),
        ("2026-01-02", "broker-b", 5, 5, 1),
    ]
    assert read_back(out, kind) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_small_files_are_merged_and_no_row_changes(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "orders"
    for end in (300, 600, 1000):
        run(out, kind, ALL, end)
    table = table_of(out, kind)
    (group,) = compaction.plan(table.files(), 1 << 20)
    committing.replace(out, table, [compaction.merge(out, group)])
    assert read_back(out, kind) == ALL
    (file,) = table_of(out, kind).files()
    assert (file.first, file.last, file.rows) == (0, 900, 10)
    assert table.marks() == {"broker-a": Mark(LOG, 1000)}
    assert compaction.plan(table.files(), 1 << 20) == []
    run(out, kind, [*ALL, 1000], 1100)
    assert read_back(out, kind) == [*ALL, 1000]


class Killed(BaseException):
    """Raised in place of the end of the process."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_killed_at_any_step_leaves_every_row_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    for at in range(1, 200):
        out = tmp_path / str(at)
        run(out, kind, ALL, 300)
        try:
            with monkeypatch.context() as patches:
                kill_at(patches, out, kind, at)
                run(out, kind, ALL, 600)
        except Killed:
            steps += 1
            assert len(read_back(out, kind)) == len(
                set(read_back(out, kind))
            )  # also to a reader that reads immediately
        else:
            break
        run(out, kind, ALL, 1000)  # a different end gives different files
        assert read_back(out, kind) == ALL, at
        assert not list(out.glob("_gantry/staging/*/*"))
    assert steps > 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_that_is_killed_at_any_step_leaves_every_row_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    for at in range(1, 200):
        out = tmp_path / str(at)
        run(out, kind, ALL, 300)
        run(out, kind, ALL, 600)
        table = table_of(out, kind)
        (group,) = compaction.plan(table.files(), 1 << 20)
        try:
            with monkeypatch.context() as patches:
                kill_at(patches, out, kind, at)
                committing.replace(out, table, [compaction.merge(out, group)])
        except Killed:
            steps += 1
            assert len(read_back(out, kind)) == len(set(read_back(out, kind)))
        else:
            break
        run(out, kind, ALL, 1000)
        assert read_back(out, kind) == ALL, at
    assert steps > 3


def kill_at(patches: pytest.MonkeyPatch, out: Path, kind: str, at: int) -> None:
    """End the process before or after the `at`-th change on disk."""
    left = [at]

    def step() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    def wrapped(change):
        def changed(*words, **more):
            step()
            result = change(*words, **more)
            step()
            return result

        return changed

    owner = type(table_of(out, kind))
    for place, name in (
        (committing, "write_json"), (Path, "replace"), (Path, "unlink"), (owner, "add"), (owner, "replace"),
    ):  # fmt: skip
        patches.setattr(place, name, wrapped(getattr(place, name)))


def test_exports_run_one_at_a_time(tmp_path: Path) -> None:
    with (
        committing.locked(tmp_path),
        pytest.raises(Refused, match="another export is running"),
        committing.locked(tmp_path),
    ):
        pass
    with committing.locked(tmp_path):
        pass


def test_a_committed_file_is_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "orders"
    run(out, "parquet", ALL, 1000)
    table = table_of(out, "parquet")
    done = staged(job(out, "parquet"), rows(ALL))
    with pytest.raises(Failed, match="already"):
        committing.add(out, table, done.files, {})
    assert read_back(out, "parquet") == ALL
