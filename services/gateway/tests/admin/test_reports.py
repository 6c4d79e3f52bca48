"""GET /v1/reports over a folder: serves the reports, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.admin import report_files

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A report of two days, a folder that is not a report, and a file that must never be read."""
    (tmp_path / "secret.html").write_text("secret")
    reports = tmp_path / "reports"
    for age, day in enumerate(("2026-01-02", "2026-01-01")):
        (reports / day / "tables").mkdir(parents=True)
        (reports / day / "report.html").write_text(f"<p>{day}</p>")
        (reports / day / "report.json").write_text("{}")
        (reports / day / "tables" / "topics.parquet").write_bytes(b"PAR1")
        os.utime(reports / day / "report.html", (1e9 - age, 1e9 - age))
    (reports / "other").mkdir()
    (reports / "index.html").write_text("<p>all</p>")
    day = reports / "2026-01-01"
    (day / "private.key").write_text("secret")
    (day / ".hidden.html").write_text("secret")
    (day / "link.html").symlink_to(tmp_path / "secret.html")
    (day / "up").symlink_to(tmp_path)
    (reports / "linked").symlink_to(reports / "2026-01-01")
    os.mkfifo(day / "pipe.html")
    return reports


@pytest.fixture
async def http(system, connect, folder: Path):
    async with connect(system.gateway(reports_dir=str(folder))) as client:
        yield client


async def test_reports_are_listed_newest_first_with_their_served_files(http) -> None:
    answer = (await http.get("/v1/reports")).json()
    files = [
        {"path": "report.html", "bytes": 17},
        {"path": "report.json", "bytes": 2},
        {"path": "tables/topics.parquet", "bytes": 4},
    ]
    assert answer == {
        "reports": [
            {"name": "2026-01-02", "writtenAt": "2001-09-09T01:46:40.000Z", "files": files},
            {"name": "2026-01-01", "writtenAt": "2001-09-09T01:46:39.000Z", "files": files},
        ]
    }


@pytest.mark.parametrize(
    ("path", "kind", "content"),
    [
        ("2026-01-01/report.html", "text/html; charset=utf-8", b"<p>2026-01-01</p>"),
        ("2026-01-01/report.json", "application/json", b"{}"),
        ("2026-01-01/tables/topics.parquet", "application/vnd.apache.parquet", b"PAR1"),
        ("index.html", "text/html; charset=utf-8", b"<p>all</p>"),
    ],
)
async def test_a_file_has_its_media_type_and_may_load_nothing(http, path, kind, content) -> None:
    answer = await http.get(f"/v1/reports/{path}")
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, kind, content)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "2026-01-01/../../secret.html",
        "2026-01-01/%2e%2e/%2e%2e/secret.html",
        "2026-01-01/..%2f..%2fsecret.html",
        "%2e%2e/secret.html",
        "..%5csecret.html/report.html",
        "2026-01-01//report.html",
        "2026-01-01/report.html%00",
        "2026-01-01/%2Fetc%2Fhostname",
        "2026-01-01/link.html",
        "2026-01-01/up/secret.html",
        "linked/report.html",
        "2026-01-01/pipe.html",
        "2026-01-01/.hidden.html",
        "2026-01-01/private.key",
        "2026-01-01/tables",
        "2026-01-01/nothing.html",
        "2026-01-01/report.html/x.html",
        "2026-01-01/",
        "2026-01-01",
    ],
)
async def test_no_other_path_is_served(http, path: str) -> None:
    answer = await http.get(f"/v1/reports/{path}")
    assert answer.status_code in {400, 404}
    assert b"secret" not in answer.content.replace(path.encode(), b"").replace(b"secret.html", b"")


def test_the_reader_refuses_paths_out_of_the_folder(folder: Path) -> None:
    for path in ("../secret.html", "2026-01-01/up/secret.html", "/etc/x.html", "2026-01-01/link.html", ""):
        assert report_files.read(str(folder), path) is None


async def test_without_the_setting_each_call_returns_a_problem(client) -> None:
    for path in ("/v1/reports", "/v1/reports/index.html", "/v1/reports/a/report.html"):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
        assert "set reports_dir" in answer.json()["detail"]


async def test_a_missing_folder_and_a_file_that_is_too_large_are_problems(
    system, connect, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(system.gateway(reports_dir=str(folder / "none"))) as http:
        answer = await http.get("/v1/reports")
        assert (answer.status_code, answer.json()["retryable"]) == (503, True)
        assert "No such file or directory" in answer.json()["detail"]
        assert (await http.get("/v1/reports/a/report.html")).status_code == 503
    monkeypatch.setattr(report_files, "FILE_BYTES_MAX", 3)
    async with connect(system.gateway(reports_dir=str(folder))) as http:
        assert (await http.get("/v1/reports/2026-01-01/report.html")).status_code == 422
