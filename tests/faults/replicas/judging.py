"""Judges a run of the nemesis. Pure, but for `differing_logs`, which reads files."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from broker_store.replication.epochs import EpochTable
from broker_store.replication.kept_file import decode_kept

from .probes import Seen

OFFSET_SECONDS_MAX = 3.0
"""Committed offsets are gathered for a second, and a busy machine adds to that. What is older may not be lost."""


STORE_TIME_SECONDS_MAX = 2.0
"""How far the store time of a message is from the time of its send: half a second ahead, and what a step costs until it is seen."""


class Found(NamedTuple):
    """A message that a queue holds."""

    body: str
    stored_ms: int
    """Store time."""


class Fault(NamedTuple):
    """What was done, and when on the steady clock."""

    kind: str
    began: float
    healed: float
    ended: float


@dataclass
class Findings:
    """What is wrong, in words; empty lists for a run that keeps its promises."""

    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, promise: str, words: str) -> None:
        self.wrong[promise].append(words)

    @property
    def holds(self) -> bool:
        return not any(self.wrong.values())

    def __str__(self) -> str:
        if self.holds:
            return "nothing wrong"
        return "; ".join(f"{promise} {len(words)}: {words[:3]}" for promise, words in self.wrong.items())


def judge_probes(seen: Seen, found: dict[int, Found], faults: list[Fault], findings: Findings) -> None:
    """Compare what was acknowledged with what the queue of the probes holds: the message at each offset."""
    _acknowledged_is_there(seen, {offset: one.body for offset, one in found.items()}, findings)
    _store_time(seen, found, findings)
    _one_leader_an_epoch(seen, findings)
    _one_lease(seen, findings)
    _offsets(seen, faults, findings)


def _acknowledged_is_there(seen: Seen, found: dict[int, str], findings: Findings) -> None:
    by_offset: dict[int, str] = {}
    for one in seen.acknowledged:
        if found.get(one.queue_offset) != one.name:
            findings.add(
                "lost",
                f"{one.name} at {one.queue_offset}: {found.get(one.queue_offset)}, by {one.replica} at {one.at:.3f}",
            )
        if by_offset.setdefault(one.queue_offset, one.name) != one.name:
            findings.add("moved", f"{one.queue_offset}: {by_offset[one.queue_offset]} and {one.name}")
    for offset, name in found.items():
        if name not in seen.attempted:
            findings.add("foreign", f"{name} at {offset}")


def _store_time(seen: Seen, found: dict[int, Found], findings: Findings) -> None:
    """Store time never goes back in a queue, and runs with the right time, whatever the wall clocks of the replicas do.

    The earliest that a message can have been stored is its send, the latest its answer.
    """
    in_order = [found[offset] for offset in sorted(found)]
    for one, after in itertools.pairwise(in_order):
        if after.stored_ms < one.stored_ms:
            findings.add(
                "store time back", f"{after.body}: {one.stored_ms - after.stored_ms} ms before {one.body}"
            )
    for one in seen.acknowledged:
        there = found.get(one.queue_offset)
        if there is None or there.body != one.name:
            continue  # lost, or moved
        stored_s = there.stored_ms / 1000 - seen.wall_offset_s
        wrong_s = max(one.sent - stored_s, stored_s - one.at)
        if wrong_s > STORE_TIME_SECONDS_MAX:
            findings.add("store time", f"{one.name} by {one.replica}: {wrong_s:.1f} s off")


def _one_leader_an_epoch(seen: Seen, findings: Findings) -> None:
    """Say what a replica acknowledged although another one had begun to lead.

    Between two acknowledgements of one leader that it sent and answered in one epoch, nobody else acknowledges what was sent after the first.
    """
    leaders: dict[int, set[str]] = defaultdict(set)
    for look in seen.looks:
        if look.view["role"] == "leader":
            leaders[look.view["epoch"]].add(look.replica)
    for epoch, names in leaders.items():
        if len(names) > 1:
            findings.add("two leaders", f"epoch {epoch}: {sorted(names)}")
    order = sorted(seen.acknowledged, key=lambda one: one.position)
    for one, after in itertools.pairwise(order):
        if after.at < one.sent:
            findings.add(
                "order",
                f"{after.name} at {after.position} was answered before {one.name} at {one.position} was sent",
            )


def _one_lease(seen: Seen, findings: Findings) -> None:
    """Find two replicas that each said, in turn, that they hold the lease, without a change of epoch between."""
    spans: dict[tuple[str, int], list[float]] = {}
    for look in seen.looks:
        if look.view["hasLease"]:
            span = spans.setdefault((look.replica, look.view["epoch"]), [look.ended, look.began])
            span[0], span[1] = min(span[0], look.ended), max(span[1], look.began)
    for one, other in itertools.combinations(spans.items(), 2):
        (name, epoch), (begin, end) = one
        (other_name, other_epoch), (other_begin, other_end) = other
        if name != other_name and max(begin, other_begin) < min(end, other_end):
            findings.add(
                "two leases",
                f"{name} in {epoch} {begin:.3f}-{end:.3f}, {other_name} in {other_epoch} {other_begin:.3f}-{other_end:.3f}",
            )


def _offsets(seen: Seen, faults: list[Fault], findings: Findings) -> None:
    """A query finds at least what was committed OFFSET_SECONDS_MAX before the latest fault before it; without a fault, all."""
    highest = 0
    for query in seen.queries:
        before = [fault for fault in faults if fault.began <= query.began]
        known_at = query.began
        if before and query.began < before[-1].ended + 10:
            known_at = before[-1].began - OFFSET_SECONDS_MAX
        floor = max((commit.offset for commit in seen.commits if commit.at < known_at), default=0)
        if query.offset < floor:
            findings.add("offset back", f"{query.offset} of {floor} at {query.replica}, {query.began:.3f}")
        highest = max(highest, query.offset)


def silences(times: list[float], faults: list[Fault]) -> dict[str, list[float]]:
    """Return, by kind of fault, the longest time without an acknowledgement from each fault to its end."""
    longest: dict[str, list[float]] = defaultdict(list)
    for fault in faults:
        inside = [at for at in times if fault.began <= at <= fault.ended]
        points = [fault.began, *inside, fault.ended]
        longest[fault.kind].append(max(later - one for one, later in itertools.pairwise(points)))
    return longest


def differing_logs(directories: dict[str, Path], confirm: int) -> list[str]:
    """Compare the bytes of all logs below the confirm offset, from where the shortest begins; say where they differ."""
    begin = max(int(file.name) for directory in directories.values() for file in _segments(directory)[:1])
    contents = {name: _log(directory, begin, confirm) for name, directory in directories.items()}
    tables = {name: _epochs(directory, confirm) for name, directory in directories.items()}
    first = next(iter(contents))
    wrong: list[str] = []
    for name, content in contents.items():
        if len(content) != confirm - begin:
            wrong.append(f"{name} has {len(content)} of {confirm - begin} bytes")
        elif content != contents[first]:
            at = next(
                at for at, pair in enumerate(zip(content, contents[first], strict=True)) if len(set(pair)) > 1
            )
            wrong.append(f"{name} and {first} differ at {begin + at}")
        if tables[name] != tables[first]:
            wrong.append(f"the epochs of {name} and {first} differ: {tables[name]} {tables[first]}")
    return wrong


def _segments(directory: Path) -> list[Path]:
    return sorted((directory / "commitlog").iterdir())


def _log(directory: Path, begin: int, end: int) -> bytes:
    files = [file for file in _segments(directory) if int(file.name) >= begin]
    return b"".join(file.read_bytes() for file in files)[: end - begin]


def _epochs(directory: Path, end: int) -> EpochTable:
    return decode_kept((directory / "gantry/replica").read_bytes()).table.until(end)
