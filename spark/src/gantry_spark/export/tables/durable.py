"""Atomic file writes, also across a power cut."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Replace a file atomically, and sync it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.fresh")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(value, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def read_json(path: Path) -> Any:
    """Return the content of a file; None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def move(root: Path, moves: Iterable[tuple[str, str]]) -> None:
    """Move files below a folder to their names there, and sync the target folders. Skips files that are already moved."""
    folders: set[Path] = set()
    for staged, path in moves:
        target = root / path
        if not (root / staged).exists() and target.exists():
            continue
        if not target.parent.exists():
            target.parent.mkdir(parents=True)
            folders.add(target.parent.parent)
            folders.add(target.parent.parent.parent)
        (root / staged).replace(target)
        folders.add(target.parent)
    for folder in folders:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
