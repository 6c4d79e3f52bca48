"""The reports that `./gantry report` wrote into the folder of the setting `reports_dir`. Read-only; never runs Spark."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from gateway.admin import report_files
from gateway.admin.report_files import FILE_BYTES_MAX, INDEX, MEDIA_TYPES, NAME_PATTERN, PATH_PATTERN
from gateway.admin.schemas import ReportFileShown, ReportList, ReportShown
from gateway.http.call import Reply
from gateway.http.problems import Problem, away
from gateway.requests.operations import Details, Operation, Operations

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-cache"),
)
"""A page contains its own styles and scripts and may load nothing else: it shows message keys, which any sender may choose."""
_NOT_SET = (
    "this gateway serves no reports: set reports_dir to the folder that ./gantry report --out writes into"
)

ReportName = Annotated[str, Meta(pattern=f"^{NAME_PATTERN}$", description="Name of the report: its folder.")]
FilePath = Annotated[
    str, Meta(pattern=f"^{PATH_PATTERN}$", description="A file of the report, as listed: `report.html`.")
]


_FILE = Details(
    reply_description="The file.",
    reply_content={
        kind: {"schema": {"type": "string", "format": "binary"}}
        for kind in sorted({kind.partition(";")[0] for kind in MEDIA_TYPES.values()})
    },
)


def report_routes(folder: str) -> list[Operation]:
    """Return the routes over a folder of reports; without a folder, each call returns a problem that says so."""
    calls = Operations("reports")

    @calls.get("/v1/reports", 404)
    async def list_reports() -> ReportList:
        """List the reports, newest first."""
        try:
            found = await asyncio.to_thread(report_files.reports, _set(folder))
        except OSError as error:
            raise _unreadable(error) from error
        return ReportList(reports=[_shown(one) for one in found])

    @calls.get(f"/v1/reports/{INDEX}", 404, 422, details=_FILE)
    async def show_index() -> Reply:
        """Show the page that lists the reports, if the folder has one."""
        return await _answer(folder, INDEX)

    @calls.get("/v1/reports/{name}/{path:path}", 404, 422, details=_FILE)
    async def show_report(name: ReportName, path: FilePath) -> Reply:
        """Show a file of a report: `report.html` is its page, `report.json` its values, `tables/….parquet` its tables."""
        return await _answer(folder, f"{name}/{path}")

    return calls.all


def _set(folder: str) -> str:
    if not folder:
        raise Problem(404, "NOT_FOUND", _NOT_SET)
    return folder


async def _answer(folder: str, path: str) -> Reply:
    try:
        content = await asyncio.to_thread(report_files.read, _set(folder), path)
    except report_files.FileTooLarge as error:
        detail = f"{path} has more than {FILE_BYTES_MAX} bytes: take it from the folder of reports itself"
        raise Problem(
            422, "INVALID_PARAMETER", detail, field="path", limit=f"{FILE_BYTES_MAX} bytes"
        ) from error
    except OSError as error:
        raise _unreadable(error) from error
    if content is None:
        raise Problem(
            404, "NOT_FOUND", f"there is no report file {path}; GET /v1/reports lists them", field="path"
        )
    return Reply(200, content, report_files.media_type(path) or "", _HEADERS)


def _unreadable(error: OSError) -> Problem:
    return away(f"the folder of reports cannot be read: {error.strerror}")


def _shown(report: report_files.Report) -> ReportShown:
    written = datetime.fromtimestamp(report.written, UTC).isoformat(timespec="milliseconds")
    return ReportShown(
        name=report.name,
        written_at=written.replace("+00:00", "Z"),
        files=[ReportFileShown(path=one.path, bytes=one.size) for one in report.files],
    )
