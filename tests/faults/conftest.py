"""Stores owned by one test, killed when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..crash.store_process import StoreProcess  # noqa: TID252
from .raw_http import JSON, TOPIC, HttpLine

NewStore = Callable[..., StoreProcess]

SETTINGS = {
    "segment_bytes": str(1 << 20),
    "flush": "sync",
    "zero_ahead_bytes": str(1 << 18),
    "ballast_bytes": str(1 << 20),
}


@pytest.fixture
def new_store(tmp_path: Path) -> Iterator[NewStore]:
    """A factory of stores on `tmp_path/store`: new_store(checkpoint_seconds="0.1"); small segments, sync flush."""
    made: list[StoreProcess] = []

    def make(directory: Path | None = None, **settings: str) -> StoreProcess:
        store = StoreProcess(
            directory or tmp_path / "store",
            settings=SETTINGS | settings,
            log=tmp_path / f"store-{len(made)}.log",
        )
        made.append(store)
        return store

    yield make
    for store in made:
        store.kill()


@pytest.fixture(scope="module")
def gateway_port(system: dict[str, Any]) -> int:
    """Port of a gateway with the topic of the raw tests and a group of the same name."""
    port = int(system["http"].rpartition(":")[2])
    with HttpLine(port) as line:
        made = line.call("PUT", f"/v1/topics/{TOPIC}", b'{"readQueues":2,"writeQueues":2}', JSON)
        assert made is not None
        assert made.status == 200, made.body
        made = line.call("PUT", f"/v1/groups/{TOPIC}", b"{}", JSON)
        assert made is not None
        assert made.status == 200, made.body
    return port
