"""Writes a report to its folder: everything under a temporary name first, so that a killed run leaves nothing that looks complete."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

HTML, JSON, TABLES = "report.html", "report.json", "tables"
_PARTIAL: Final = ".partial-"


class NotWritable(Exception):
    """The folder of a report cannot be created or written; the text is one line for people."""


class Place:
    """The folder of a report. Use as a context: unpublished files are removed at the end."""

    def __init__(self, out: Path) -> None:
        self.out = out.absolute()
        self._partial = self.out.parent / f".{self.out.name}{_PARTIAL}{os.getpid()}"

    def __enter__(self) -> Self:
        """Check now, not after a minute of work, that it is writable. Raises NotWritable."""
        try:
            if self.out.exists() and not self.out.is_dir():
                raise NotWritable(
                    f"cannot write the report to {self.out}: that is a file. Name a folder with --out."
                )
            self._partial.mkdir(parents=True)
            probe = (self.out if self.out.exists() else self._partial) / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            shutil.rmtree(self._partial, ignore_errors=True)
            raise _refused(self.out, error) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Remove unpublished files."""
        shutil.rmtree(self._partial, ignore_errors=True)

    def publish(self, html: str, report: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """Write everything, sync it, and rename it, the page last. Raises NotWritable."""
        fresh = self._partial / "report"
        try:
            shutil.rmtree(fresh, ignore_errors=True)
            (fresh / TABLES).mkdir(parents=True)
            for name, table in tables.items():
                pq.write_table(table, fresh / TABLES / f"{name}.parquet", compression="zstd")
            _write(fresh / JSON, json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False))
            _write(fresh / HTML, html)
            self._name(fresh)
        except OSError as error:
            raise _refused(self.out, error) from None

    def _name(self, fresh: Path) -> None:
        """Rename to a new folder as a whole; replace files in an existing one individually."""
        with contextlib.suppress(OSError):
            self.out.rmdir()  # an empty one counts as missing
        if not self.out.exists():
            fresh.rename(self.out)
            return
        old = self.out / TABLES
        if old.exists():
            before = self._partial / "old-tables"
            shutil.rmtree(before, ignore_errors=True)  # of the previous round
            old.rename(before)
        (fresh / TABLES).rename(old)
        for name in (JSON, HTML):
            (fresh / name).replace(self.out / name)


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _refused(out: Path, error: OSError) -> NotWritable:
    return NotWritable(
        f"cannot write the report to {out}: {error.strerror or error}. Name another folder with --out."
    )
