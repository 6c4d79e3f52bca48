"""Logs of replicas over simulated disks: records, preambles, runs that belong together, and the opening after a crash."""

from struct import Struct

from broker_store.log.checkpoint.checkpoint import LastRun
from broker_store.log.checkpoint.checkpoint_file import NO_TIMES
from broker_store.log.recovery.recovery import Recovery
from broker_store.log.settings import LogSettings
from broker_store.replication.replica_log import ReplicaLog, ReplicaPart, Runs
from gantry_wire.records.message_record import build_record, record_size

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\xf9"
SMALL = LogSettings(segment_bytes=4096, prezero_bytes=0)
LOG = "/store/commitlog"
FRESH_BYTES = 6000
TOGETHER = Struct(">4sH")


def together(properties: bytes) -> int:
    return TOGETHER.unpack(properties)[1] if properties else 1


def marked(count: int) -> bytes:
    """The properties of the first of so many records that belong together."""
    return TOGETHER.pack(b"set:", count)


RUNS = Runs(together, lambda record: record[7] == b"SYS")


def record(position: int, body: bytes, topic: bytes = b"T", properties: bytes = b"") -> bytes:
    return build_record(
        topic, 0, 0, position, body, properties, 0, 0, 1_700_000_000_000, HOST, 1_700_000_000_000, HOST
    )


class Confirms:
    """What is kept beside the log, here outside of the disk: any confirm offset that was noted is a lower bound, and no deletion is without its note."""

    def __init__(self) -> None:
        self.noted = 0
        self.deleted: int | None = None

    def write_confirm(self, position: int) -> None:
        self.noted = position

    def note_deleted(self, position: int) -> None:
        self.deleted = max(position, self.deleted or 0)


def open_log(files, confirms=None, settings=SMALL, preamble=True, begin=0) -> ReplicaLog:
    """Open a log as a start after a crash does, up to its end."""
    files.make_dirs(LOG)
    confirms = confirms or Confirms()
    log = ReplicaLog(
        files, LOG, settings, lambda position: [record(position, b"state", b"SYS")] if preamble else [],
        lambda *_: None, confirms,
        ReplicaPart(RUNS, FRESH_BYTES, begin),
    )  # fmt: skip
    if confirms.deleted is not None:
        log.know_deleted(confirms.deleted)
    last = LastRun(False, "", confirms.noted, None, None, NO_TIMES)
    recovery = Recovery(
        log, last, rebuild=True, is_preamble=RUNS.is_preamble, records_together=together, confirms_end=False
    )
    for _ in recovery.run():
        pass
    return log


def put(log: ReplicaLog, *bodies: bytes, as_one: bool = False) -> None:
    """Place records in the open batch, each by itself or all as one."""
    if not as_one:
        for body in bodies:
            place(log, (body,), ())
        return
    place(log, bodies, (marked(len(bodies)),))


def place(log: ReplicaLog, bodies: tuple[bytes, ...], properties: tuple[bytes, ...]) -> None:
    every = [*properties, *[b""] * (len(bodies) - len(properties))]
    sizes = [record_size(len(body), 1, len(mark)) for body, mark in zip(bodies, every, strict=True)]
    position = log.reserve(sum(sizes))
    for body, mark, size in zip(bodies, every, sizes, strict=True):
        log.put(record(position, body, properties=mark))
        position += size


def send(log: ReplicaLog, *bodies: bytes, as_one: bool = False) -> int:
    """Place and write records. Returns the end of the log."""
    put(log, *bodies, as_one=as_one)
    log.write()
    return log.written_end


def ship(leader: ReplicaLog, follower: ReplicaLog, bytes_max: int = 2000) -> bool:
    """Copy the next piece, as a shipper does. False: there is none."""
    position = follower.written_end
    if position >= leader.shippable_end:
        return False
    piece = leader.fresh.gather(position, bytes_max) or leader.read_runs(position, bytes_max)
    follower.append_shipped(piece.position, piece.end, piece.data)
    return True


def content(files) -> dict[str, bytes]:
    return {name: files.content(f"{LOG}/{name}") for name in files.listdir(LOG)}


def same(one, other, end: int, first: int = 0) -> bool:
    """Whether both disks hold the same bytes from the start of a segment to this position, in files of the same names."""
    mine, theirs = content(one), content(other)
    for start in range(first, end, SMALL.segment_bytes):
        name = f"{start:020d}"
        if mine[name][: end - start] != theirs[name][: end - start]:
            return False
    return True
