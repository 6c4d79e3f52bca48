"""Files torn, flipped, garbled or deleted between two runs: acknowledged messages are read again, losses are reported."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ..crash.store_process import StoreProcess  # noqa: TID252
from .conftest import SETTINGS, NewStore
from .filled import TOPIC, Filled, check_whole, fill

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]

SMALL = {"index_slots": "997", "index_entries": "4000", "queue_file_units": "150"}
ENDS = ["stopped", "killed"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Filled]:
    """The same content after SIGTERM, and after SIGKILL with part of it after the last checkpoint."""
    ended: dict[str, Filled] = {}
    for name in ENDS:
        directory = tmp_path_factory.mktemp("runs")
        store = StoreProcess(directory / "store", settings=SETTINGS | SMALL | {"checkpoint_seconds": "0.1"})
        store.start()
        try:
            ended[name] = fill(store)
            if name == "stopped":
                assert store.stop() == 0
        finally:
            store.kill()
    return ended


def only(directory: Path, pattern: str) -> Path:
    return min(path for path in directory.glob(pattern) if path.is_file())


def garble(path: Path, start: int, size: int) -> None:
    data = bytearray(path.read_bytes())
    data[start : start + size] = random.Random(start).randbytes(len(data[start : start + size]))
    path.write_bytes(data)


def truncate(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no consumequeue": lambda store: shutil.rmtree(store / "consumequeue"),
    "one queue gone": lambda store: shutil.rmtree(store / "consumequeue" / TOPIC / "1"),
    "first file of a queue gone": lambda store: only(store, f"consumequeue/{TOPIC}/1/*").unlink(),
    "last file of a queue gone": lambda store: max(store.glob(f"consumequeue/{TOPIC}/1/*")).unlink(),
    "a middle file of a queue gone": lambda store: (store / f"consumequeue/{TOPIC}/1/{150 * 20:020d}").unlink(),
    "a queue's file cut": lambda store: truncate(only(store, f"consumequeue/{TOPIC}/0/*"), 130),
    "end of a queue zeroed": lambda store: max(store.glob(f"consumequeue/{TOPIC}/0/*")).write_bytes(bytes(3000)),
    "no index": lambda store: shutil.rmtree(store / "index"),
    "index header garbled": lambda store: garble(only(store, "index/*"), 0, 40),
    "index file cut": lambda store: truncate(only(store, "index/*"), 3000),
    "no checkpoint": lambda store: (store / "checkpoint").unlink(),
    "checkpoint garbled": lambda store: garble(store / "checkpoint", 0, 4096),
    "a foreign abort file": lambda store: (store / "abort").write_text("4711\n"),
    "note garbled": lambda store: garble(store / "gantry" / "log.note", 0, 8192),
    "no log id": lambda store: (store / "gantry" / "logId").unlink(),
    "nothing of our own": lambda store: shutil.rmtree(store / "gantry"),
    "nothing but log and config": lambda store: [
        shutil.rmtree(store / "gantry"), shutil.rmtree(store / "consumequeue"), shutil.rmtree(store / "index"),
        (store / "checkpoint").unlink(), (store / "abort").unlink(missing_ok=True),
    ],
    "the log alone": lambda store: [
        shutil.rmtree(path) if path.is_dir() else path.unlink() for path in store.iterdir() if path.name != "commitlog"
    ],
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_derived_and_small_files_may_be_lost(
    runs: dict[str, Filled], new_store: NewStore, tmp_path: Path, damage: str, end: str
) -> None:
    filled = runs[end].copy(tmp_path / "store")
    DAMAGES[damage](filled.store_dir)
    store = new_store(**SMALL)
    store.start()
    check_whole(store, filled)
