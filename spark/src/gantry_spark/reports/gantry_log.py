"""The rows and facts of a report, from a snapshot of stores and the data source `gantry`."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from gantry_spark.decode.schema import ddl
from gantry_spark.reports.counting import job as counting_job
from gantry_spark.reports.facts import Bounds, Committed, Configured, Damage, Engine, Facts, Span
from gantry_spark.reports.tables import delay_levels
from gantry_spark.store import files as store_files
from gantry_spark.store.directory import is_running
from gantry_spark.store.snapshot import Snapshot, StoreView

_SYSTEM_FLAG_AT, _STORE_TIME_AT, _BORN_IPV6, _IPV6_MORE = 36, 56, 0x10, 12
_RECORD_HEAD_BYTES: Final = _STORE_TIME_AT + _IPV6_MORE + 8


class GantryLog:
    """Rows of one snapshot, from `since` (position by broker) on."""

    def __init__(
        self,
        engine: Engine,
        manifest: Path,
        quarantine: Path,
        since: Mapping[str, int] | None = None,
    ) -> None:
        self._engine = engine
        self._manifest = manifest
        self._quarantine = quarantine
        self._since = since

    def rows(self, columns: Sequence[str], *, topics: Collection[str] | None = None, span: Span) -> DataFrame:
        """Return these columns of messages; only of `topics` if given."""
        if topics is not None and not topics:
            return self._engine.session().createDataFrame([], ddl(tuple(columns)))
        reader = (
            self._engine.session()
            .read.format("gantry")
            .options(**self._options())
            .option("columns", ",".join(columns))
            .option("decompress", str("body" in columns).lower())
        )
        if topics is not None:
            reader = reader.option("topic", ",".join(topics))
        rows = reader.load()
        if span.since_ms is not None:
            rows = rows.where(F.col("storeTimestamp") >= F.timestamp_millis(F.lit(span.since_ms)))
        if span.below_ms is not None:
            rows = rows.where(F.col("storeTimestamp") < F.timestamp_millis(F.lit(span.below_ms)))
        return rows

    def counted(self, step: int, tracked: int, span: Span) -> pa.Table:
        """Return the counts of all messages, as `counts.SCHEMA` has them."""
        return counting_job.counted(self._engine.context(), self._options(), step, tracked, span)

    def _options(self) -> dict[str, str]:
        found = {"snapshot": str(self._manifest), "quarantine": str(self._quarantine)}
        found["failOnDataLoss"] = "false"  # a report covers the readable part, and lists the rest as damage
        return found if self._since is None else found | {"startingOffsets": json.dumps(self._since)}

    def damage(self) -> Sequence[Damage]:
        """Return what no pass could read, each piece once."""
        found: set[Damage] = set()
        for file in sorted(self._quarantine.rglob("*.json*")):
            for line in file.read_text(encoding="utf-8").splitlines():
                piece: dict[str, Any] = json.loads(line)
                found.add(Damage(piece["broker"], int(piece["position"]), int(piece["size"]), piece["why"]))
        return sorted(found)


def facts(snapshot: Snapshot, levels: str = delay_levels.DEFAULT) -> Facts:
    """Return the facts of a snapshot for a report."""
    views = snapshot.stores
    created_ms = max(view.created_ms for view in views)
    firsts = [first for view in views if (first := _first_ms(view)) is not None]
    lasts = [_last_ms(view) for view in views]
    bounds = [
        Bounds(view.broker, topic, queue, low, high)
        for view in views
        for (topic, queue), (low, high) in view.queues.items()
    ]
    return Facts(
        snapshot=describe(snapshot),
        bounds=tuple(bounds),
        committed=tuple(one for view in views for one in _committed(view)),
        now_ms=created_ms,
        first_ms=min(firsts, default=created_ms),
        last_ms=max(lasts),
        delay_levels=levels,
        notes=tuple(
            f"{view.broker} was running, and its HTTP address was unknown: its log was read without a snapshot, and data that retention deleted meanwhile "
            f"may be missing. Name the address: --http {view.broker}=http://…"
            for view in views
            if not view.snapshot_id and is_running(view.directory)
        ),
        configured=tuple(
            Configured(view.broker, topic, queue)
            for view in views
            for topic, queues in store_files.topics(view.directory).items()
            for queue in range(queues)
        ),
    )


def describe(snapshot: Snapshot) -> dict[str, Any]:
    """Return the report's description of its snapshot, as JSON."""
    return {
        "id": "+".join(view.snapshot_id for view in snapshot.stores if view.snapshot_id),
        "createdMs": max(view.created_ms for view in snapshot.stores),
        "brokers": [view.broker for view in snapshot.stores],
        "stores": [
            {
                "broker": view.broker, "logId": view.log_id, "minPosition": view.min_position, "endPosition": view.end_position,
                "bytes": view.end_position - view.min_position, "segments": len(view.segments), "wasRunning": bool(view.snapshot_id),
            }
            for view in snapshot.stores
        ],
    }  # fmt: skip


def _committed(view: StoreView) -> list[Committed]:
    found: list[Committed] = []
    for name, queues in view.offsets.items():
        topic, _, group = name.partition("@")
        found += [Committed(group, view.broker, topic, queue, offset) for queue, offset in queues.items()]
    return found


def _first_ms(view: StoreView) -> int | None:
    """Return the store time of the first record; None if there is none."""
    if not view.segments or view.end_position <= view.min_position:
        return None
    segment = view.segments[0]
    with contextlib.suppress(OSError, struct.error), Path(segment.path).open("rb") as file:
        file.seek(view.min_position - segment.base)
        head = file.read(_RECORD_HEAD_BYTES)
        (flag,) = struct.unpack_from(">i", head, _SYSTEM_FLAG_AT)
        (store_ms,) = struct.unpack_from(
            ">q", head, _STORE_TIME_AT + (_IPV6_MORE if flag & _BORN_IPV6 else 0)
        )
        return store_ms
    return None


def _last_ms(view: StoreView) -> int:
    """Return the approximate time of the last message: from a stopped store's checkpoint, or now for a running one."""
    if not view.snapshot_id:
        with contextlib.suppress(OSError, struct.error):
            (flushed_ms,) = struct.unpack_from(">q", Path(view.directory, "checkpoint").read_bytes())
            if flushed_ms > 0:
                return min(flushed_ms, view.created_ms)
    return view.created_ms
