"""Snapshots: what one job reads of some stores, fixed before it plans, so that every task and every retry reads the same bytes.

A store that runs makes the snapshot itself (`POST /snapshots`: hard links with a time to live), and drops it when told. Of a directory
that nobody runs the end is found here. Nothing is ever written in a store.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from gantry_spark.store import end as store_end
from gantry_spark.store import files as store_files
from gantry_spark.store import http as store_http
from gantry_spark.store.directory import NotAStore, StoreDirectory, find
from gantry_spark.store.end import StoreUnreadable
from gantry_spark.store.files import QueueName, SegmentFile

_log = logging.getLogger("gantry_spark")

TTL_SECONDS: Final = 3600
"""How long a running store keeps what a job reads, unless the job ends before: longer than jobs take."""
VERSION: Final = 1
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class StoreView:
    """What a job reads of one store: positions [min_position, end_position), immutable while the view lasts."""

    broker: str
    log_id: str
    """Name of the log; empty for one that Gantry never opened."""
    directory: str
    """Where `commitlog`, `consumequeue` and `config` of the view lie."""
    min_position: int
    end_position: int
    segments: tuple[SegmentFile, ...]
    queues: dict[QueueName, tuple[int, int]]
    """(topic, queue id) to (lowest offset, behind the highest)."""
    offsets: dict[str, dict[int, int]]
    """"topic@group" to {queue id: next offset to consume}."""
    created_ms: int
    snapshot_id: str = ""
    """The store's own name for it; empty when its directory is read as it is."""
    http: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Some stores as one job sees them. Close it when the job is over: stores then free what they kept for it."""

    stores: tuple[StoreView, ...]

    def close(self) -> None:
        """Let the stores drop what they kept. A store that does not answer drops it when its time is over."""
        for view in self.stores:
            if view.snapshot_id and view.http:
                store_http.drop_snapshot(view.http, view.snapshot_id)

    def to_json(self) -> str:
        """Return it as text, for the option `snapshot`."""
        return json.dumps({"version": VERSION, "stores": [_to_plain(view) for view in self.stores]})

    @staticmethod
    def from_json(text: str) -> Snapshot:
        """Return the snapshot of a text that `to_json` gave. Raises ValueError."""
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise ValueError(f"this is no snapshot of version {VERSION}")
        return Snapshot(tuple(_from_plain(plain) for plain in found["stores"]))


def take(
    paths: Sequence[str], *, http: Mapping[str, str] | None = None, ttl_seconds: int = TTL_SECONDS
) -> Snapshot:
    """Fix what the stores below these paths hold now.

    `http` gives addresses of running stores that no launcher of this machine knows, by broker name. Raises NotAStore, StoreUnreadable.
    """
    views: list[StoreView] = []
    try:
        views.extend(_take_one(store, ttl_seconds) for store in find(paths, http))
    except BaseException:
        Snapshot(tuple(views)).close()
        raise
    return Snapshot(tuple(views))


def load(path: str) -> Snapshot:
    """Return the snapshot of a manifest: a file of `to_json`, a store's own `manifest.json`, or a folder of such files."""
    place = Path(path)
    files = (
        sorted(place.glob("*.json")) + sorted(place.glob("*/manifest.json")) if place.is_dir() else [place]
    )
    views: list[StoreView] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
            found = json.loads(text)
            views += (
                Snapshot.from_json(text).stores if "stores" in found else [_of_manifest(file.parent, found)]
            )
        except OSError as error:
            raise NotAStore(f"the snapshot {file} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise NotAStore(f"{file} is no manifest of a snapshot: {error}") from error
    if not views:
        raise NotAStore(f"{path} holds no manifest of a snapshot")
    return Snapshot(tuple(sorted(views, key=lambda view: view.broker)))


def look(store: StoreDirectory, known_end: int = 0) -> StoreView:
    """Return what a directory holds now, without its queues and offsets, and without keeping it from retention.

    `known_end` is a position that was an end before: a walk need not begin below it.
    """
    return view_up_to(store, store_end.find_end(store, store_end.segments(store), known_end))


def view_up_to(store: StoreDirectory, end: int) -> StoreView:
    """Return what a directory holds below a position that was found to be a boundary before."""
    segments = store_end.segments(store)
    return StoreView(
        store.broker, store_files.log_id(store.path), store.path, segments[0].base if segments else end, end,
        tuple(s for s in segments if s.base < end), {}, {}, int(time.time() * 1000),
    )  # fmt: skip


def _take_one(store: StoreDirectory, ttl_seconds: int) -> StoreView:
    if store.is_running and store.http:
        manifest = store_http.make_snapshot(store.http, ttl_seconds)
        folder = Path(store.path, "gantry", "snapshots", manifest["id"])
        if not folder.is_dir():
            store_http.drop_snapshot(store.http, manifest["id"])
            raise StoreUnreadable(f"the store at {store.http} is another one than {store.path}")
        return replace(_of_manifest(folder, manifest), broker=store.broker, http=store.http)
    if store.is_running:
        _log.warning(
            "%s runs and its HTTP address is not known: it is read as it is, and retention may delete what this job still reads; "
            "name the address in the option http",
            store.broker,
        )
    return _read_directory(store)


def _of_manifest(folder: Path, manifest: dict[str, Any]) -> StoreView:
    """Return the view of a store's own snapshot; its paths are those of this machine, whatever the store calls them."""
    directory = str(folder)
    end = int(manifest["endPosition"])
    segments = store_files.segments(directory)
    if {f"{segment.base:020d}" for segment in segments} != set(manifest["segments"]):
        raise StoreUnreadable(f"the snapshot {folder} is incomplete: its time is over, take a new one")
    queues: dict[QueueName, tuple[int, int]] = {}
    for queue in manifest["queues"]:
        _, topic, queue_id = str(queue["directory"]).split("/")
        queues[topic, int(queue_id)] = int(queue["minOffset"]), int(queue["maxOffset"])
    return StoreView(
        folder.parents[2].name, str(manifest["logId"]), directory, int(manifest["minPosition"]), end, segments, queues,
        store_files.offsets(directory), int(manifest["createdMs"]), str(manifest["id"]),
    )  # fmt: skip


def _read_directory(store: StoreDirectory) -> StoreView:
    """Read a directory as it is, again where a file was deleted meanwhile. Raises StoreUnreadable."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            return _looked_through(store)
    raise StoreUnreadable(f"files of {store.path} disappear while they are read: is the store being removed?")


def _looked_through(store: StoreDirectory) -> StoreView:
    """Offsets first, then queues, then the end, so that no lag is negative."""
    now_ms, offsets = int(time.time() * 1000), store_files.offsets(store.path)
    segments = store_end.segments(store)
    queues, end = store_end.find_queues(store, segments)
    return StoreView(
        store.broker, store_files.log_id(store.path), store.path, store_end.lowest(store, segments), end,
        tuple(s for s in segments if s.base < end), queues, offsets, now_ms,
    )  # fmt: skip


def _to_plain(view: StoreView) -> dict[str, Any]:
    plain = asdict(view)
    plain["segments"] = [list(segment) for segment in view.segments]
    plain["queues"] = [[*queue, *bounds] for queue, bounds in view.queues.items()]
    return plain


def _from_plain(plain: Mapping[str, Any]) -> StoreView:
    found = dict(plain)
    found["segments"] = tuple(SegmentFile(*segment) for segment in plain["segments"])
    found["queues"] = {(topic, queue_id): (low, high) for topic, queue_id, low, high in plain["queues"]}
    found["offsets"] = {
        name: {int(queue): offset for queue, offset in queues.items()}
        for name, queues in plain["offsets"].items()
    }
    return StoreView(**found)
