"""The files of a report, and the options of its command line. No Spark here."""

from __future__ import annotations

import io
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_rows import RowsLog

from gantry_spark.reports import __main__ as report
from gantry_spark.reports import merging
from gantry_spark.reports.asked import NotPossible, levels_of, sources_of, span_of
from gantry_spark.reports.content import check, totals
from gantry_spark.reports.facts import CHART_STEPS, STEPS, Bounds, Span, step_for
from gantry_spark.reports.first_look import by_log, by_queues
from gantry_spark.reports.index import write_index
from gantry_spark.reports.progress import Progress
from gantry_spark.reports.writing import NotWritable, Place
from gantry_spark.spark.quiet import Quiet

TABLE = {"topics": pa.table({"topic": ["orders"], "messages": [3]})}


def publish(out: Path, words: str = "page") -> None:
    with Place(out) as place:
        place.publish(words, {"totals": {}}, TABLE)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_report_is_made_with_its_folders(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    publish(out)
    assert (out / "report.html").read_text() == "page"
    assert json.loads((out / "report.json").read_text()) == {"totals": {}}
    assert pq.read_table(out / "tables" / "topics.parquet").to_pylist() == [
        {"topic": "orders", "messages": 3}
    ]
    assert names(out.parent) == ["b"]


def test_a_report_replaces_the_one_before_and_leaves_other_files_alone(tmp_path: Path) -> None:
    publish(tmp_path / "r")
    (tmp_path / "r" / "notes.txt").write_text("mine")
    publish(tmp_path / "r", "newer")
    assert (tmp_path / "r" / "report.html").read_text() == "newer"
    assert names(tmp_path / "r") == ["notes.txt", "report.html", "report.json", "tables"]


def test_every_round_of_one_run_replaces_the_report_before(tmp_path: Path) -> None:
    with Place(tmp_path / "r") as place:
        for number in range(4):
            place.publish(f"round {number}", {"totals": {}}, {"topics": pa.table({"messages": [number]})})
            assert (tmp_path / "r" / "report.html").read_text() == f"round {number}"
            table = pq.read_table(tmp_path / "r" / "tables" / "topics.parquet")
            assert table.to_pylist() == [{"messages": number}]
    assert names(tmp_path) == ["r"]


def test_an_unfinished_report_leaves_nothing_under_its_name(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Place(tmp_path / "r"):
            assert not (tmp_path / "r").exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []


def test_an_unwritable_folder_is_one_line_and_status_2(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotWritable, match="Name a folder with --out"), Place(tmp_path / "file"):
        pass
    assert report.main(["--store", str(tmp_path), "--out", str(tmp_path / "file" / "r")]) == 2
    written = capsys.readouterr().err.splitlines()
    assert written[-1].startswith(f"gantry report: cannot write the report to {tmp_path}/file/r:")
    assert written[0].startswith("gantry report: checking the options (1 of")


def test_a_missing_store_is_one_line_and_status_2(tmp_path: Path, capsys: Any) -> None:
    assert report.main(["--store", str(tmp_path), "--out", str(tmp_path / "r")]) == 2
    assert "no commitlog/" in capsys.readouterr().err.splitlines()[-1]
    assert names(tmp_path) == []


def test_times_are_utc_by_default() -> None:
    assert span_of("2026-11-22", "2026-11-22T02:00+01:00") == Span(1_795_305_600_000, 1_795_309_200_000)
    assert datetime.fromtimestamp(1_795_305_600, UTC).isoformat() == "2026-11-22T00:00:00+00:00"
    with pytest.raises(NotPossible, match="the range is empty"):
        span_of("2026-11-22", "2026-11-22")
    with pytest.raises(NotPossible, match="yesterday"):
        span_of("yesterday", None)


def test_delay_levels_and_sources_are_checked() -> None:
    assert levels_of("1s 2d") == "1s 2d"
    with pytest.raises(NotPossible, match="1x"):
        levels_of("1s 1x")
    with pytest.raises(NotPossible, match="not both"):
        sources_of("data", [], "manifest.json")
    assert sources_of(None, [], None).paths == ("data",)
    with pytest.raises(NotPossible, match="not like broker-a=http"):
        sources_of(None, [], None, ["broker-a"])


@pytest.mark.parametrize(
    ("minutes", "step"), [(1, 1), (10, 5), (60, 30), (240, 60), (1440, 600), (60 * 24 * 30, 3600)]
)
def test_short_ranges_are_cut_finer_and_none_coarser_than_an_hour(minutes: int, step: int) -> None:
    assert step_for(minutes * 60_000, STEPS) == step
    assert step_for(minutes * 60_000, CHART_STEPS) >= step


def test_the_check_says_what_differs() -> None:
    rows = [
        {"topic": "a", "inLog": 9, "inQueues": 10, "removed": 0, "queuesThatDiffer": 1},
        {"topic": "b", "inLog": 7, "inQueues": 5, "removed": 2, "queuesThatDiffer": 0},
    ]
    assert check(Span(), rows, [{"size": 93}])["difference"] == -1
    assert (
        "differs by -1 messages in 1 queues (14 in the log, 15 in the queues). 2 more in the log are of deleted topics. 1 damaged"
        in check(Span(), rows, [{"size": 93}])["words"]
    )
    assert check(Span(), rows[1:])["state"] == "equal"
    assert "2 more in the log are of deleted topics" in check(Span(), rows[1:])["words"]
    assert check(Span(5), None)["state"] == "not checked"


def test_totals_of_nothing_are_zero() -> None:
    found = totals({"topics": [], "system_topics": [], "damage": []})
    assert (found["messages"], found["bytes"], found["firstStored"], found["latencyP99Ms"]) == (
        0,
        0,
        None,
        None,
    )


def test_progress_is_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(2, stream)
    progress.stage("counting")
    progress.say("12 messages")
    progress.end()
    assert stream.getvalue() == "gantry report: counting (1 of 2, 0 s)\ngantry report: 12 messages\n"


def test_a_folder_of_reports_gets_a_page_that_lists_them(tmp_path: Path) -> None:
    assert write_index(tmp_path, is_ours=False) is None
    for number, name in enumerate(["one", "two"]):
        out = tmp_path / name
        publish(out)
        said = {"generatedAt": f"2026-11-2{number}T00:00:00Z", "totals": {"firstStored": None, "lastStored": None, "messages": 7, "bytes": 8},
                "check": {"state": "equal"}, "snapshot": {"brokers": ["a"]}}  # fmt: skip
        (out / "report.json").write_text(json.dumps(said))
    (tmp_path / "three").mkdir()
    page = write_index(tmp_path, is_ours=False)
    assert page is not None
    text = page.read_text()
    assert text.index("two/report.html") < text.index("one/report.html")
    assert "three" not in text
    page.write_text("somebody else's")
    assert write_index(tmp_path, is_ours=True) is None


def rollups(folder: Path, first: int, last: int) -> Path:
    at = pa.array([datetime(2026, 11, 22, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    traffic = {
        "time": at,
        "broker": ["a"],
        "topic": ["orders"],
        "queueId": [0],
        "firstOffset": [first],
        "lastOffset": [last],
    }
    (folder / "tables").mkdir(parents=True)
    for name in merging.ROLLUPS:
        pq.write_table(pa.table(traffic), folder / "tables" / f"{name}.parquet")
    return folder


def test_reports_that_counted_the_same_messages_are_not_merged(tmp_path: Path) -> None:
    one, two, three = (
        rollups(tmp_path / "1", 0, 9),
        rollups(tmp_path / "2", 10, 19),
        rollups(tmp_path / "3", 19, 30),
    )
    assert merging.read([two, one])["hourly_traffic"].num_rows == 2
    with pytest.raises(NotPossible, match="queue 0 of orders on a"):
        merging.read([one, two, three])
    with pytest.raises(NotPossible, match="not a complete report"):
        merging.read([tmp_path])


def test_reports_of_a_recreated_store_are_not_merged(tmp_path: Path) -> None:
    folders = [
        rollups(tmp_path / "1", 0, 9),
        rollups(tmp_path / "2", 10, 19),
        rollups(tmp_path / "3", 20, 29),
    ]
    for folder, log_id in zip(folders, ("x", "x", "y"), strict=True):
        written = {"snapshot": {"stores": [{"broker": "a", "logId": log_id}]}}
        (folder / "report.json").write_text(json.dumps(written))
    assert merging.read(folders[:2])["hourly_traffic"].num_rows == 2
    with pytest.raises(NotPossible, match=r"different logs of a \(x, y\)"):
        merging.read(folders)


def test_logs_of_the_bridge_to_java_are_hidden(caplog: pytest.LogCaptureFixture) -> None:
    with Quiet():
        logging.getLogger().error("KeyboardInterrupt while sending command.")
        logging.getLogger("gantry_spark").warning("read without what retention deleted")
    logging.getLogger().error("of somebody else")
    assert caplog.messages == ["read without what retention deleted", "of somebody else"]


def test_the_queues_give_the_first_counts_of_user_topics():
    bounds = [Bounds("b", f"small-{number:02d}", 0, 0, 1) for number in range(12)]
    bounds += [
        Bounds("b", "orders", 0, 5, 1005),
        Bounds("c", "orders", 3, 0, 250),
        Bounds("b", "GANTRY_SYS_TASKS", 0, 0, 9),
    ]
    lines = by_queues(bounds).splitlines()
    assert lines[0] == "by the queues, before the log is read: 1,262 messages in 13 topics"
    assert lines[2].split() == ["1,250", "2", "orders"]
    assert len(lines) == 2 + 12 + 1
    assert lines[-1].split() == ["1", "in", "1", "more"]
    assert by_queues([]) == "by the queues, before the log is read: 0 messages in 0 topics"


def test_the_first_table_of_the_log_has_the_counts_of_user_topics():
    log = RowsLog()
    for number in range(5):
        log.add("orders", number, queueId=number % 2)
    log.add("GANTRY_SYS_TASKS", 7)
    log.add("%RETRY%billing", 8)
    lines = by_log(log.counted(1, 1000, Span())).splitlines()
    assert lines[0] == "counted in the log: 6 messages in 2 topics"
    assert [line.split() for line in lines[2:]] == [["5", "2", "orders"], ["1", "1", "%RETRY%billing"]]
    assert by_log(RowsLog().counted(1, 1000, Span())) == "counted in the log: 0 messages in 0 topics"
