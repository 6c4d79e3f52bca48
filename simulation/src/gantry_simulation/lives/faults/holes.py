"""Stretches of a replica's log that are damaged or gone while it is down: its next start finds them, and fills them from another replica.

A stretch is below what every replica has confirmed, so another one has it. It begins and ends with a record: in the middle of one, a part may change
that no check covers. A life strikes one replica of a group: of two, nobody else might have a record.
"""

from __future__ import annotations

import random

from broker_store.log.commit_log.scan import ScannedRecord, scan_records
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.log.log_range import LogRange
from gantry_simulation.lives.faults.damage import confirm_on, segments_on
from gantry_simulation.lives.faults.processes import kill
from gantry_simulation.lives.plan import Act, broker_of
from gantry_simulation.lives.system import System
from gantry_simulation.parts.store import DIRECTORY

NOTES = ("gantry/queues.json", "gantry/queues.json.bak")
"""Without them a start reads the whole log."""
FILE_SHARE = 0.5
"""Share of the acts that remove whole segments, where one is below the limit."""
RECORDS_MAX = 200
GARBAGE = b"\xa5"


def lose_stretch(system: System, act: Act) -> bool:
    """Kill a replica, damage or remove a stretch of its log, and start it after the span."""
    group, rng = system.groups[broker_of(act.on)], random.Random(act.number)
    store = group.replicas[act.on]
    if group.struck not in {"", act.on}:
        return False
    limit = min(confirm_on(replica.files) for replica in group.replicas.values())
    first = max(_first(replica.files, limit) for replica in group.replicas.values())
    files = store.files.killed()  # a device changes what it holds: nothing of it is in the page cache alone
    lost = _remove_segments(files, LogRange(first, limit), rng) if rng.random() < FILE_SHARE else None
    lost = lost or _damage(files, LogRange(first, limit), rng)
    if lost is None:
        return False
    if store.process.is_running:
        kill(system, act)
    store.files, group.struck = files, act.on
    system.history.add(act.on, f"loses the stretch from {lost.start} to {lost.end} of its log")
    return True


def _first(files: SimulatedFiles, limit: int) -> int:
    """Return where a log begins, `limit` where it has no segment."""
    return min((start for _, start in segments_on(files)), default=limit)


def _remove_segments(files: SimulatedFiles, within: LogRange, rng: random.Random) -> LogRange | None:
    """Remove one segment or the first ones, all of which lies within. A start finds that without reading the log."""
    whole = [
        LogRange(start, start + len(files.content(path)))
        for path, start in segments_on(files)
        if within.start <= start and start + len(files.content(path)) <= within.end
    ]
    if not whole:
        return None
    number = rng.randrange(len(whole))
    chosen = whole[: number + 1] if rng.random() < 0.5 else [whole[number]]
    for path, start in segments_on(files):
        if any(start == each.start for each in chosen):
            files.remove(path)
    files.sync_dir(f"{DIRECTORY}/commitlog")
    return LogRange(chosen[0].start, chosen[-1].end)


def _damage(files: SimulatedFiles, within: LogRange, rng: random.Random) -> LogRange | None:
    """Put zeros or garbage over some records of a segment, and let the next start read the whole log."""
    found: list[tuple[str, int, list[ScannedRecord]]] = []
    for path, start in segments_on(files):
        records: list[ScannedRecord] = []
        scan_records(files.content(path), start, 0, records)
        inside = [each for each in records if within.start <= each[0] and each[0] + each[1] <= within.end]
        if inside:
            found.append((path, start, inside))
    if not found:
        return None
    path, start, records = rng.choice(found)
    number = rng.randrange(len(records))
    last = records[min(number + rng.randrange(RECORDS_MAX), len(records) - 1)]
    lost = LogRange(records[number][0], last[0] + last[1])
    files.write_at(path, lost.start - start, rng.choice((b"\0", GARBAGE)) * (lost.end - lost.start))
    for name in NOTES:
        files.remove(f"{DIRECTORY}/{name}")
    files.sync_dir(f"{DIRECTORY}/gantry")
    return lost
