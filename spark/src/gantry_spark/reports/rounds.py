"""Makes successive reports of some stores: each takes a snapshot, reads the messages since the previous one, and releases it."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from gantry_spark.reports import content, first_look, gantry_log
from gantry_spark.reports.facts import Bounds, Damage, Engine, Facts, Span
from gantry_spark.reports.progress import Progress
from gantry_spark.reports.tables.build import Build, count
from gantry_spark.store.snapshot import Snapshot, StoreView

LAST_STAGE = "drawing"


class Made(NamedTuple):
    """A report: the content of `report.json`, its SQL, every complete table."""

    report: dict[str, Any]
    sql: Mapping[str, str]
    tables: Mapping[str, pa.Table]


@dataclass
class _Earlier:
    """The state that rounds pass to the next one."""

    ends: dict[str, int] = field(default_factory=dict[str, int])
    log_ids: dict[str, str] = field(default_factory=dict[str, str])
    views: dict[str, pa.Table] = field(default_factory=dict[str, Any])
    first_ms: int | None = None
    lowest: dict[tuple[str, str, int], int] = field(default_factory=dict[tuple[str, str, int], int])
    """Lowest offset of each queue when it was first read: retention may have moved it since, but counted messages stay counted."""
    damage: set[Damage] = field(default_factory=set[Damage])


class Rounds:
    """Reports over the stores of which `take` makes a snapshot. With `keep`, each round continues where the previous one ended."""

    def __init__(
        self,
        engine: Engine,
        take: Callable[[], Snapshot],
        span: Span,
        levels: str,
        *,
        keep: bool = False,
    ) -> None:
        self._engine = Engine(functools.cache(engine.context), functools.cache(engine.session))
        """Called once, and only after reading the queues: Spark's start takes seconds, reading them does not."""
        self._take = take
        self._span = span
        self._levels = levels
        self._keep = keep
        self._earlier = _Earlier()

    def make(self, progress: Progress) -> Made:
        """Return the next report. Raises errors of taking a snapshot and reading it."""
        folder = Path(tempfile.mkdtemp(prefix="gantry-report-"))
        snapshot = self._take()
        try:
            (folder / "snapshot.json").write_text(snapshot.to_json(), encoding="utf-8")
            return self._make(snapshot, folder, progress)
        finally:
            snapshot.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _make(self, snapshot: Snapshot, folder: Path, progress: Progress) -> Made:
        if not all(self._goes_on(view) for view in snapshot.stores):
            self._earlier = _Earlier()  # a log was replaced or cut: its earlier counts are no longer valid
        earlier = self._earlier
        facts = self._widened(gantry_log.facts(snapshot, self._levels))
        if self._span.is_all and not earlier.ends:
            progress.say(first_look.by_queues(facts.bounds))
        log = gantry_log.GantryLog(
            self._engine, folder / "snapshot.json", folder / "quarantine", earlier.ends or None
        )
        self._engine.context()
        progress.stage("counting messages")
        counted = count(log, facts, self._span)
        first, *more = first_look.by_log(counted).splitlines(keepends=True)
        progress.say((first if earlier.ends else first + "".join(more)).rstrip("\n"))
        build = Build(self._engine.session(), log, counted, facts, self._span, earlier.views)
        try:
            for words, stage in build.stages():
                progress.stage(words)
                stage()
            damage = {*earlier.damage, *log.damage()}
            tables = {**build.found.tables, "damage": content.damage_table(sorted(damage))}
            if self._keep:
                self._remember(snapshot, facts, build.kept(), damage)
        finally:
            build.close()
        progress.stage(LAST_STAGE)
        report = content.content(facts, self._span, tables, build.found.parameters, progress.seconds)
        return Made(report, build.found.sql, tables)

    def _goes_on(self, view: StoreView) -> bool:
        """Whether a store's log is the one read before, grown."""
        known = self._earlier.log_ids.get(view.broker)
        return known is None or (
            known == view.log_id and view.end_position >= self._earlier.ends[view.broker]
        )

    def _widened(self, facts: Facts) -> Facts:
        """Return facts that cover everything counted so far, not only what the stores still have."""
        lowest = self._earlier.lowest
        bounds = tuple(
            Bounds(
                *bound[:3],
                lowest.get((bound.broker, bound.topic, bound.queue_id), bound.min_offset),
                bound.max_offset,
            )
            for bound in facts.bounds
        )
        first_ms = facts.first_ms if self._earlier.first_ms is None else self._earlier.first_ms
        return replace(facts, bounds=bounds, first_ms=first_ms)

    def _remember(
        self, snapshot: Snapshot, facts: Facts, views: dict[str, pa.Table], damage: set[Damage]
    ) -> None:
        self._earlier = _Earlier(
            ends={view.broker: view.end_position for view in snapshot.stores},
            log_ids={view.broker: view.log_id for view in snapshot.stores},
            views=views,
            first_ms=facts.first_ms,
            lowest={(b.broker, b.topic, b.queue_id): b.min_offset for b in facts.bounds},
            damage=damage,
        )
