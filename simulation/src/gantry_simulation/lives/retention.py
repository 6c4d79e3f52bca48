"""Watches which segments retention deletes, whether it may, and which messages leave with them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.commit_log.scan import ScannedRecord, scan_records
from broker_store.log.files.names import parse_file_name
from gantry_simulation.ledger.places import Place
from gantry_simulation.lives.operations.doing import message_of
from gantry_simulation.lives.plan import broker_of, is_topic
from gantry_simulation.lives.system import System
from gantry_simulation.parts.store import DIRECTORY, Store
from gantry_simulation.world.process_loop import ProcessLoop
from gantry_simulation.world.world import MS_NS
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.records.message_record import decode_record

LOG = f"{DIRECTORY}/commitlog"
ITEMS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC})
STAMP_MS = 500


class Stored(NamedTuple):
    """A record of a segment."""

    position: int
    topic: str
    place: Place
    message: str


class Retention:
    """Knows the rules: without need of space nothing leaves that is younger than an hour, and an undecided item never leaves."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._stamp()

    @contextmanager
    def watched(self) -> Generator[None]:
        """Watch for the time of a life."""
        right = CommitLog.drop_first_segment

        def drop_first_segment(log: CommitLog) -> str:
            path = right(log)
            loop = asyncio.get_running_loop()
            assert isinstance(loop, ProcessLoop)
            self._dropped(self._system.stores[loop.name], path)
            return path

        with patch.object(CommitLog, "drop_first_segment", drop_first_segment):
            yield

    def _stamp(self) -> None:
        """Let the stores' disks stamp new files with the wall clocks of their machines."""
        for store in self._system.stores.values():
            store.files.now_ms = store.process.clocks.wall_ns() // MS_NS
        self._system.world.after(STAMP_MS * MS_NS, self._stamp)

    def _dropped(self, store: Store, path: str) -> None:
        system, name = self._system, store.process.name
        group = system.groups.get(broker_of(name))
        if group is not None and group.leader is not store:
            system.history.add(name, f"deletes {path}, though another replica leads")
            return
        records = list(_records(store, path))
        settings = store.settings
        forced_bytes = settings.free_bytes_min + 4 * settings.ballast_bytes
        is_needed = store.files.free_bytes(LOG) < forced_bytes
        old_end = system.old_below.get(name, 0)
        young = [each for each in records if each.position >= old_end]
        system.history.add(
            name,
            f"deletes {path}, {len(records)} messages, {len(young)} of them young{', needs it' * is_needed}",
        )
        if young and not is_needed:
            system.world.violate(
                name,
                f"deletes {young[-1].message} of {young[-1].place} without need, which is younger than an hour",
            )
        self._items_left(store, path, {each.message for each in records if each.topic in ITEMS})
        for each in records:
            if is_topic(each.topic):
                system.ledger.expired(each.message, each.place)

    def _items_left(self, store: Store, path: str, items: set[str]) -> None:
        """Check that what leaves with a segment is decided, or has a copy in a later one."""
        if not items:
            return
        later = [other for other in _segments(store) if other > path]
        stay = {each.message for other in later for each in _records(store, other) if each.topic in ITEMS}
        for message in items - stay:
            if self._is_undecided(message):
                self._system.world.violate(store.process.name, f"deletes {message}, which is undecided")
            self._system.ledger.transactions.half_left(message)
            self._system.ledger.delays.item_left(message)

    def _is_undecided(self, message: str) -> bool:
        """Whether a message certainly waits: it was acknowledged, and nobody has begun to decide it."""
        delays, halves, now_ns = (
            self._system.ledger.delays.delayed,
            self._system.ledger.transactions.halves,
            self._system.world.now_ns,
        )
        delayed, half = delays.get(message), halves.get(message)
        if delayed is not None:
            waits = not delayed.cancellations and not delayed.perhaps_due and delayed.due.wait_seconds > 0
            return delayed.is_certain and waits and not delayed.due.allows(now_ns, 0)
        return half is not None and half.is_certain and not half.possible


def _segments(store: Store) -> list[str]:
    return [f"{LOG}/{name}" for name in store.files.listdir(LOG) if parse_file_name(name) is not None]


def end_of_log(store: Store) -> int:
    """Return the position behind the last record on the disk of a store."""
    return max((each.position + 1 for path in _segments(store) for each in _records(store, path)), default=0)


def _records(store: Store, path: str) -> Iterator[Stored]:
    content, start = store.files.content(path), parse_file_name(path.rpartition("/")[2]) or 0
    found: list[ScannedRecord] = []
    scan_records(content, start, 0, found)
    for position, _, queue, offset, _, _, _, raw_topic, *_ in found:
        topic = raw_topic.decode()
        message = message_of(decode_record(content, position - start).body)
        yield Stored(position, topic, Place(broker_of(store.process.name), topic, queue, offset), message)
