"""Puts a report in its folder: everything under a temporary name first, so that a run that is killed leaves nothing that looks whole."""

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
    """The folder of a report cannot be made or written; the text is one line for people."""


class Place:
    """The folder of one report. Use as a context: what was not published is gone afterwards."""

    def __init__(self, out: Path) -> None:
        self.out = out.absolute()
        self._partial = self.out.parent / f".{self.out.name}{_PARTIAL}{os.getpid()}"

    def __enter__(self) -> Self:
        """Make sure now, not after a minute of work, that it can be written. Raises NotWritable."""
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
        """Remove what was not published."""
        shutil.rmtree(self._partial, ignore_errors=True)

    def publish(self, html: str, report: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """Write everything, sync it, and give it its names, the page last. Raises NotWritable."""
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
        """Name a folder that is not there yet as a whole; replace in one that is there piece by piece."""
        with contextlib.suppress(OSError):
            self.out.rmdir()  # an empty one is as good as none
        if not self.out.exists():
            fresh.rename(self.out)
            return
        old = self.out / TABLES
        if old.exists():
            before = self._partial / "old-tables"
            shutil.rmtree(before, ignore_errors=True)  # of a round that this one follows
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
