"""Checks the folder of a table before anything is started: whether it is an export or empty, is writable, and what it contains."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

from gantry_spark.export.bodies.schema import Struct
from gantry_spark.export.command.options import ExportOptions
from gantry_spark.export.failures import Refused
from gantry_spark.export.tables.durable import read_json, write_json
from gantry_spark.export.tables.table import STATE

IDENTITY: Final = f"{STATE}/export.json"
VERSION: Final = 1
_LAUNCHERS: Final = "gantry.lock"
"""In every data directory of `./gantry up`."""


def dead_letters_of(out: Path) -> Path:
    """Return the folder of undecodable messages."""
    return out.with_name(f"{out.name}_dlq")


@contextlib.contextmanager
def left_as_found(out: Path) -> Generator[None]:
    """Remove created folders that stayed empty at the end: a refused run leaves nothing."""
    made = [
        folder
        for table in (dead_letters_of(out), out)
        for folder in (table / STATE, table, *table.parents)
        if not os.path.lexists(folder)
    ]
    try:
        yield
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def apart(out: Path, data: Path | None) -> None:
    """Raise Refused for a folder in the data directory that is read: it belongs to the system."""
    if data is not None and data.resolve() in (out.resolve(), *out.resolve().parents):
        raise Refused(f"{out} is inside {data}, the data directory that is read: name a folder elsewhere")


def prepare(out: Path) -> dict[str, Any] | None:
    """Prepare the folder of a table; return its description, None for a new one. Raises Refused for a folder that is not a table."""
    inside = _store_around(out)
    if inside is not None:
        raise Refused(f"{out} is inside {inside[0]}, {inside[1]}: name a folder elsewhere")
    try:
        out.mkdir(parents=True, exist_ok=True)
        identity = read_json(out / IDENTITY)
        if identity is None and (found := [path.name for path in out.iterdir() if path.name != STATE]):
            raise Refused(
                f"{out} contains files that are not an export ({min(found)}…): name an empty folder or a new one"
            )
        (out / STATE).mkdir(exist_ok=True)
        probe = out / STATE / "probe"
        probe.write_bytes(b"")
        probe.unlink()
    except FileExistsError:
        raise Refused(f"{out} is a file: name a folder") from None
    except NotADirectoryError:
        raise Refused(f"a parent of {out} is not a folder") from None
    except (OSError, ValueError) as error:
        raise Refused(f"cannot write in {out}: {getattr(error, 'strerror', None) or error}") from None
    if identity is not None and identity["version"] != VERSION:
        raise Refused(f"{out} was written by another version of ./gantry export: export into a new folder")
    return identity


def wanted(options: ExportOptions, body: Struct | None) -> dict[str, Any]:
    """Return the table description that the options request."""
    return {
        "version": VERSION, "to": options.to, "topics": sorted(options.topics), "body": body, "prefix": options.prefix,
        "fromMs": options.from_ms, "toMs": options.to_ms,
    }  # fmt: skip


def agree(out: Path, holds: dict[str, Any] | None, asked: dict[str, Any]) -> dict[str, Any]:
    """Return a table's description; for an existing table, check that the request matches. Omitted times are the table's own."""
    if holds is None:
        return asked
    for key, name in (
        ("to", "--to"),
        ("topics", "--topic"),
        ("body", "--json-schema"),
        ("prefix", "--prefix"),
    ):
        if holds[key] != asked[key]:
            raise Refused(
                f"{out} was exported with {_shown(name, holds[key])}: ask for the same, or name another folder"
            )
    for key, name in (("fromMs", "--from-time"), ("toMs", "--to-time")):
        if asked[key] is not None and asked[key] != holds[key]:
            raise Refused(
                f"{out} was exported with {_shown(name, holds[key])}: leave {name} out to continue, or name another folder"
            )
    return holds


def keep(out: Path, holds: dict[str, Any]) -> None:
    """Write the description of a new table: the folder belongs to it from now on."""
    if not (out / IDENTITY).exists():
        write_json(out / IDENTITY, holds)


def _shown(name: str, value: Any) -> str:
    match value:
        case None | "":
            return f"no {name}"
        case list():
            return " ".join(f"{name} {one}" for one in value)
        case dict():
            return f"another {name}"
        case _:
            return f"{name} {value}"


def _store_around(out: Path) -> tuple[Path, str] | None:
    """Return the store or data directory that contains a folder, or is it, and which of both."""
    resolved = out.resolve()
    for folder in (resolved, *resolved.parents):
        if (folder / "commitlog").is_dir():
            return folder, "which belongs to a store"
        if (folder / _LAUNCHERS).is_file():
            return folder, "the data directory of a system"
    return None
