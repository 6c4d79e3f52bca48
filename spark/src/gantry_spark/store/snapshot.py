"""Snapshots: the part of some stores that a job reads, fixed before it plans, so that every task and every retry reads the same bytes.

A running store makes the snapshot itself (`POST /snapshots`: hard links with a time to live), and drops it on request. For the directory of a
stopped store the end is found here. Nothing is ever written to a store.
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
from gantry_spark.store import replicas
from gantry_spark.store.directory import NotAStore, Places, StoreDirectory, places
from gantry_spark.store.end import StoreUnreadable
from gantry_spark.store.files import QueueName, SegmentFile
from gantry_spark.store.replicas import LEADER

_log = logging.getLogger("gantry_spark")

TTL_SECONDS: Final = 3600
"""How long a running store keeps a job's data, unless the job ends before: longer than jobs take."""
TAKEOVER_SECONDS_MAX: Final = 30.0
"""While no replica leads: a takeover takes seconds."""
_TRY_AGAIN_SECONDS: Final = 0.5
VERSION: Final = 1
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class StoreView:
    """The part of a store that a job reads: positions [min_position, end_position), immutable while the view lasts."""

    broker: str
    log_id: str
    """Name of the log; empty for one that Gantry never opened."""
    directory: str
    """The folder with the view's `commitlog`, `consumequeue` and `config`."""
    min_position: int
    end_position: int
    segments: tuple[SegmentFile, ...]
    queues: dict[QueueName, tuple[int, int]]
    """(topic, queue id) to (lowest offset, the one after the highest)."""
    offsets: dict[str, dict[int, int]]
    """"topic@group" to {queue id: next offset to consume}."""
    created_ms: int
    snapshot_id: str = ""
    """The store's id of it; empty if its directory is read without a snapshot."""
    http: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Some stores, as seen by a job. Close it when the job is over: stores then delete what they kept for it."""

    stores: tuple[StoreView, ...]

    def close(self) -> None:
        """Drop the snapshots at the stores. A store that does not answer drops it when its time to live is over."""
        for view in self.stores:
            if view.snapshot_id and view.http:
                store_http.drop_snapshot(view.http, view.snapshot_id)

    def to_json(self) -> str:
        """Return it as text, for the option `snapshot`."""
        return json.dumps({"version": VERSION, "stores": [_to_plain(view) for view in self.stores]})

    @staticmethod
    def from_json(text: str) -> Snapshot:
        """Return the snapshot of a text from `to_json`. Raises ValueError."""
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise ValueError(f"this is no snapshot of version {VERSION}")
        return Snapshot(tuple(_from_plain(plain) for plain in found["stores"]))


def take(
    paths: Sequence[str],
    *,
    http: Mapping[str, str] | None = None,
    ttl_seconds: int = TTL_SECONDS,
    replica: str = LEADER,
) -> Snapshot:
    """Fix the current content of the stores below these paths.

    `http` has addresses of running stores that no launcher of this machine knows, by broker name; those of replicas separated by `|`.
    `replica`: which one makes the snapshot of a broker with replicas: `leader`, `follower` or a name. Raises NotAStore, StoreUnreadable,
    SnapshotRefused.
    """
    views: list[StoreView] = []
    try:
        views.extend(_take_of(one, ttl_seconds, replica) for one in places(paths, http))
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
            raise NotAStore(f"{file} is not a manifest of a snapshot: {error}") from error
    if not views:
        raise NotAStore(f"{path} contains no manifest of a snapshot")
    return Snapshot(tuple(sorted(views, key=lambda view: view.broker)))


def look(store: StoreDirectory, known_end: int = 0) -> StoreView:
    """Return the current content of a directory, without its queues and offsets, and without protecting it from retention.

    `known_end` is an earlier end: a walk need not begin below it.
    """
    return view_up_to(store, store_end.find_end(store, store_end.segments(store), known_end))


def view_up_to(store: StoreDirectory, end: int) -> StoreView:
    """Return the content of a directory below a known boundary."""
    segments = store_end.segments(store)
    return StoreView(
        store.broker, store_files.log_id(store.path), store.path, segments[0].base if segments else end, end,
        tuple(s for s in segments if s.base < end), {}, {}, int(time.time() * 1000),
    )  # fmt: skip


def _take_of(places: Places, ttl_seconds: int, wish: str) -> StoreView:
    if not places.has_replicas:
        return _take_one(places.store(places.folders[0]), ttl_seconds)
    stores = [places.store(folder) for folder in places.folders]
    addresses = places.addresses or tuple(store.http for store in stores if store.http)
    if not addresses:
        chosen = replicas.of_files(places.folders, wish)
        return _take_one(next(store for store in stores if store.path == chosen), ttl_seconds)
    until = time.monotonic() + TAKEOVER_SECONDS_MAX
    while True:
        said = replicas.ask(addresses)
        chosen_one = replicas.of_roles(said, wish)
        if chosen_one is not None:
            with contextlib.suppress(
                store_http.StoreAway
            ):  # it ended meanwhile: ask again, another one may lead
                return _made(places.broker, chosen_one.address, places.folders, ttl_seconds)
        if time.monotonic() > until:
            raise StoreUnreadable(
                f"no replica of {places.broker} can be read as {wish}: {replicas.words_of(addresses, said)}; wait until one leads, or name "
                "one that answers as the replica"
            )
        time.sleep(_TRY_AGAIN_SECONDS)


def _made(broker: str, http: str, folders: Sequence[str], ttl_seconds: int) -> StoreView:
    """Have a running store make a snapshot, which is in one of these directories. Raises SnapshotRefused, StoreUnreadable."""
    manifest = store_http.make_snapshot(http, ttl_seconds)
    for directory in folders:
        folder = Path(directory, "gantry", "snapshots", manifest["id"])
        if folder.is_dir():
            return replace(_of_manifest(folder, manifest), broker=broker, http=http)
    store_http.drop_snapshot(http, manifest["id"])
    raise StoreUnreadable(f"the store at {http} is another one than {' or '.join(folders)}")


def _take_one(store: StoreDirectory, ttl_seconds: int) -> StoreView:
    if store.is_running and store.http:
        return _made(store.broker, store.http, [store.path], ttl_seconds)
    if store.is_running:
        _log.warning(
            "%s runs and its HTTP address is unknown: it is read without a snapshot, and retention may delete data that this job reads; "
            "name the address in the option http",
            store.broker,
        )
    return _read_directory(store)


def _of_manifest(folder: Path, manifest: dict[str, Any]) -> StoreView:
    """Return the view of a store's own snapshot; its paths are those of this machine, whatever the store's paths are."""
    directory = str(folder)
    end = int(manifest["endPosition"])
    segments = store_files.segments(directory)
    if {f"{segment.base:020d}" for segment in segments} != set(manifest["segments"]):
        raise StoreUnreadable(
            f"the snapshot {folder} is incomplete: its time to live is over, take a new one"
        )
    queues: dict[QueueName, tuple[int, int]] = {}
    for queue in manifest["queues"]:
        _, topic, queue_id = str(queue["directory"]).split("/")
        queues[topic, int(queue_id)] = int(queue["minOffset"]), int(queue["maxOffset"])
    return StoreView(
        folder.parents[2].name, str(manifest["logId"]), directory, int(manifest["minPosition"]), end, segments, queues,
        store_files.offsets(directory), int(manifest["createdMs"]), str(manifest["id"]),
    )  # fmt: skip


def _read_directory(store: StoreDirectory) -> StoreView:
    """Read a directory without a snapshot, again if a file was deleted meanwhile. Raises StoreUnreadable."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            return _looked_through(store)
    raise StoreUnreadable(f"files of {store.path} disappear while they are read: is the store being removed?")


def _looked_through(store: StoreDirectory) -> StoreView:
    """Read offsets first, then queues, then the end, so that no lag is negative."""
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
