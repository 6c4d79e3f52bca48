"""Bytes that change on the device while a store is down, and derived files that are lost.

Bytes change only where docs/log-format.md promises that a start or a read finds it: those fields of a record that contradict
others when they change, below the confirm offset; files with checksums; derived files; a JSON file so that it is no JSON any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker_store.log.commit_log.scan import ScannedRecord, scan_records
from broker_store.log.consume_queues.queue_units import HOLE_SIZE
from broker_store.log.files.names import parse_file_name
from broker_store.log.files.simulated_files import SimulatedFiles
from gantry_simulation.ledger.places import Place
from gantry_simulation.ledger.tasks import Letter
from gantry_simulation.lives.faults.processes import kill
from gantry_simulation.lives.operations.doing import message_of
from gantry_simulation.lives.operations.reading import letter_of
from gantry_simulation.lives.plan import Act, is_topic
from gantry_simulation.lives.system import System
from gantry_simulation.parts.store import DIRECTORY
from gantry_wire.errors import MalformedRecord
from gantry_wire.records.message_record import Record, decode_record
from gantry_wire.records.units import CHECKPOINT, CONSUME_QUEUE_UNIT, CONSUME_QUEUE_UNIT_BYTES

ROOT = str(DIRECTORY)
BODY_AT = 88
FIELDS = (range(8), range(9, 12), range(28, 36), range(84, 88), range(BODY_AT, BODY_AT + 1))
"""Size and magic, CRC without its first byte (its highest bit does not count), position, body size, body: docs/log-format.md, 1."""
NOTE_BYTES, NOTE_SLOTS = 124, (0, 4096)
CHECKED = ("settled.snapshot", "leases.snapshot", "transactions.snapshot", "committed.snapshot")
CHECKED_FOLDERS = ("units", "keys")
"""Files below gantry/ with checksums."""
JSON_FILES = ("config/topics.json", "config/consumerOffset.json", "gantry/queues.json")
LOST = (
    ("consumequeue",),
    ("index",),
    ("consumequeue", "index"),
    ("gantry/settled.snapshot",),
    ("gantry/committed.snapshot",),
    ("config/consumerOffset.json", "config/consumerOffset.json.bak"),
    ("gantry/keys",),
    ("gantry/queues.json", "gantry/queues.json.bak"),
    ("gantry/log.note",),
    ("consumequeue", "index", "checkpoint", "abort"),
)
"""Each of these sets of files and folders may be lost: the log has what they say."""
FOLDERS = ("consumequeue", "index", "gantry/keys")
CONFIRMING = ("gantry/log.note", "checkpoint")
"""Without these no confirm offset is known: a start then takes the first damaged record for the end of the log."""


class Flip(NamedTuple):
    """A byte to change."""

    path: str
    at: int
    place: Place | None = None
    """The place whose message it may take."""
    message: str = ""
    copied: tuple[Letter, str] | None = None
    """The dead letter that the message is a copy of, and the task that sent it again."""


Target = Callable[[SimulatedFiles, str, random.Random], Flip | None]
"""Chooses a byte of a kind of file of a store; None if it has none."""


def flip(system: System, act: Act) -> bool:
    """Kill a store and change a bit of its files."""
    store, rng = system.stores[act.on], random.Random(act.number)
    target = rng.choice(TARGETS)
    found = _chosen(system, act.on, target, rng)
    if found is None:
        return False
    if store.process.is_running:
        kill(system, act)
    if target is _record:
        # A device changes what it holds. With the confirm offset still in the page cache, a power cut before
        # the next start is over would make the record the end of the log.
        store.files = store.files.killed()
    store.files.flip(found.path, found.at, 1 << rng.randrange(8))
    system.history.add(
        act.on,
        f"a bit of {found.path} at byte {found.at} changes: {found.place or 'no message'}{', a redriven letter' * (found.copied is not None)}",
    )
    _note_flip(system, act.on, target, found)
    return True


def _chosen(system: System, on: str, target: Target, rng: random.Random) -> Flip | None:
    """Return the byte to change; None where the change would break no promise or more than one."""
    if target is _record and (on in system.damaged or on in system.unconfirmed):
        return (
            None  # the record after a damaged one proves where to continue: damage both, and more may be lost
        )
    found = target(system.stores[on].files, on, rng)
    if found is None or (target is _note and on in system.damaged):
        return None
    if found.path.endswith("topics.json") and system.shape.has_programs:
        return None  # its backup may lack their topics, of which the log has no message yet
    return found


def _note_flip(system: System, on: str, target: Target, found: Flip) -> None:
    """Record what a changed bit may take."""
    if target is _note:
        system.unconfirmed.add(on)
    if target is _index:
        system.damaged_index.add(on)
    system.ledger.messages.doubtful.add(on)
    system.ledger.messages.damaged_stores.add(on)
    if found.place is not None:
        system.ledger.messages.was_damaged(found.message, found.place)
        if found.copied is not None:
            tasks = system.ledger.tasks
            note = tasks.copy_damaged if target is _record else tasks.copied
            note(*found.copied, found.place, found.message)
        if target is _record:
            system.damaged[on] = found.place


def lose_files(system: System, act: Act) -> bool:
    """Kill a store and remove files that it can make again from its log."""
    store = system.stores[act.on]
    lost = random.Random(act.number).choice(LOST)
    if set(lost).intersection(CONFIRMING):
        if act.on in system.damaged:
            return False
        system.unconfirmed.add(act.on)
    if store.process.is_running:
        kill(system, act)
    for name in lost:
        path = f"{ROOT}/{name}"
        if name in FOLDERS:
            store.files.remove_dir(path)
        else:
            store.files.remove(path)
    if "index" in lost:
        system.damaged_index.discard(act.on)
    system.ledger.messages.damaged_stores.add(act.on)
    system.history.add(act.on, f"loses {', '.join(lost)}")
    return True


def _record(files: SimulatedFiles, store: str, rng: random.Random) -> Flip | None:
    confirm = confirm_on(files)
    found: list[tuple[str, int, ScannedRecord]] = []
    for path, start in segments_on(files):
        records: list[ScannedRecord] = []
        scan_records(files.content(path), start, 0, records)
        found += [
            (path, position - start, record)
            for record in records
            if is_topic(record[7].decode()) and (position := record[0]) + record[1] <= confirm
        ]
    if not found:
        return None
    path, first, (_, _, queue_id, offset, _, _, _, topic, _) = rng.choice(found)
    record = decode_record(files.content(path), first)
    at = first + rng.choice(rng.choice(FIELDS))
    place = Place(store, topic.decode(), queue_id, offset)
    return Flip(path, at, place, message_of(record.body), letter_of(record))


def segments_on(files: SimulatedFiles) -> list[tuple[str, int]]:
    """Return path and first position of each segment."""
    return [
        (f"{ROOT}/commitlog/{name}", start)
        for name in files.listdir(f"{ROOT}/commitlog")
        if (start := parse_file_name(name)) is not None
    ]


def _record_at(files: SimulatedFiles, position: int) -> Record | None:
    """Return the record that a unit names, None where no record begins."""
    for path, start in reversed(segments_on(files)):
        if start <= position:
            try:
                return decode_record(files.content(path), position - start)
            except MalformedRecord:
                break
    return None


def confirm_on(files: SimulatedFiles) -> int:
    """Return the confirm offset on the disk. What lies above it is the end of the log when it is damaged."""
    content = files.content(f"{ROOT}/checkpoint")
    return CHECKPOINT.unpack_from(content)[4] if len(content) >= CHECKPOINT.size else 0


def _unit(files: SimulatedFiles, store: str, rng: random.Random) -> Flip | None:
    found: list[tuple[Flip, int]] = []
    for topic in filter(is_topic, files.listdir(f"{ROOT}/consumequeue")):
        for queue in files.listdir(f"{ROOT}/consumequeue/{topic}"):
            for name in files.listdir(f"{ROOT}/consumequeue/{topic}/{queue}"):
                path = f"{ROOT}/consumequeue/{topic}/{queue}/{name}"
                first = (parse_file_name(name) or 0) // CONSUME_QUEUE_UNIT_BYTES
                units = CONSUME_QUEUE_UNIT.iter_unpack(files.content(path))
                for number, (position, size, _) in enumerate(units):
                    if size not in (0, HOLE_SIZE):
                        at = number * CONSUME_QUEUE_UNIT_BYTES
                        found.append(
                            (Flip(path, at, Place(store, topic, int(queue), first + number)), position)
                        )
    if not found:
        return None
    flip, position = rng.choice(found)
    at = flip.at + rng.randrange(CONSUME_QUEUE_UNIT_BYTES)
    record = _record_at(files, position)
    if record is None:
        return flip._replace(at=at)
    return flip._replace(at=at, message=message_of(record.body), copied=letter_of(record))


def _index(files: SimulatedFiles, _store: str, rng: random.Random) -> Flip | None:
    return _somewhere(files, [f"{ROOT}/index/{name}" for name in files.listdir(f"{ROOT}/index")], rng)


def _note(files: SimulatedFiles, _store: str, rng: random.Random) -> Flip | None:
    path, at = f"{ROOT}/gantry/log.note", rng.choice(NOTE_SLOTS) + rng.randrange(NOTE_BYTES)
    return Flip(path, at) if at < len(files.content(path)) else None


def _checked_file(files: SimulatedFiles, _store: str, rng: random.Random) -> Flip | None:
    names = [f"{ROOT}/gantry/{name}" for name in CHECKED]
    for folder in CHECKED_FOLDERS:
        names += [f"{ROOT}/gantry/{folder}/{name}" for name in files.listdir(f"{ROOT}/gantry/{folder}")]
    return _somewhere(files, names, rng)


def _json(files: SimulatedFiles, _store: str, rng: random.Random) -> Flip | None:
    path = f"{ROOT}/{rng.choice(JSON_FILES)}"
    return Flip(path, 0) if files.content(path) else None


def _somewhere(files: SimulatedFiles, paths: Sequence[str], rng: random.Random) -> Flip | None:
    """Return a byte that is no zero, of one of these files."""
    used = [path for path in paths if any(files.content(path))]
    if not used:
        return None
    path = rng.choice(used)
    content = files.content(path)
    return Flip(path, rng.choice([at for at, byte in enumerate(content) if byte]))


TARGETS: tuple[Target, ...] = (
    _record, _record, _record, _unit, _index, _note, _checked_file, _json,
)  # fmt: skip
