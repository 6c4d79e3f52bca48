"""The cost of decoding a log: columns of a segment, compared with reading the same bytes and computing a CRC32 of them.

    python bench/spark_speed/spark_decode.py [--megabytes 512] [--rounds 5] [--bodies 80,1024,4096] [--data DIR]

Writes segments to a temporary folder with the record builder of the store: a page of 20,000 messages of twelve topics, with six properties
each, is built record by record, then repeated with advanced positions and queue offsets; 80 bytes of body make records of 250 B.
`--data DIR` reads the segments of a store's `commitlog` folder instead. One process, one thread, pages in memory.

The reference reads every byte in order into one buffer of 1 MiB and gives it to zlib.crc32. Ratio = time of the reference ÷ time of
the decoder, by CPU time of this process, best of the rounds, which are interleaved. The struct loop is measured on a part.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false
# (pyarrow tells no types)

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

import numpy as np
import pyarrow as pa

from gantry_spark.decode.segments import Damaged, LogRange, Wanted, read
from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import build_blank, build_record
from measuring.system import provenance
from reporting.figures import figure

SEGMENT_BYTES = 256 * 1024 * 1024
PAGE_RECORDS = 20_000
LOOP_BYTES = 16 * 1024 * 1024
HEADER = (
    "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp", "storeSize", "bodySize",
    "reconsumeTimes", "flag", "sysFlag", "bodyCRC", "preparedTransactionOffset",
)  # fmt: skip
TRAFFIC = ("topic", "queueId", "storeTimestamp", "storeSize", "bodySize")
FULL = (*HEADER, "bornHost", "storeHost", "topic", "body", "propertiesRaw")
VARIANTS: dict[str, tuple[Wanted, float]] = {
    "header, 12 columns": (Wanted(HEADER), 0.55),
    "topic and 4 columns": (Wanted(TRAFFIC), 0.45),
    "topic and 4 columns, tags": (Wanted((*TRAFFIC, "tags")), 0),
    "full, raw properties": (Wanted(FULL), 0.30),
    "full, properties as MAP": (Wanted((*FULL[:-1], "properties")), 0.18),
    "one topic of twelve": (Wanted(TRAFFIC, topics=frozenset({"topic-3"})), 0),
    "header, CRC checked": (Wanted(HEADER, check_crc=True), 0),
}
"""The selections, and the goal of each ratio for records of 250 B."""
REPORTED = {
    "header": "header, 12 columns",
    "topic": "topic and 4 columns",
    "full": "full, raw properties",
    "map": "full, properties as MAP",
}
"""The variant by the name of the measurement."""
FIXED = Struct(">iIiiiqqiq8sq8siqi")


def page(body_bytes: int) -> tuple[bytes, np.ndarray]:
    """Return adjacent records from position 0, and the start of each."""
    chance = random.Random(1)
    born, store = pack_host("10.1.2.3", 40_000), pack_host("10.0.0.1", 10_911)
    records: list[bytes] = []
    starts: list[int] = []
    at = 0
    for number in range(PAGE_RECORDS):
        properties = {
            "KEYS": f"order-{number}", "UNIQ_KEY": f"{chance.getrandbits(64):016X}", "WAIT": "true",
            "TAGS": f"tag{number % 5}", "CLUSTER": "DefaultCluster",
        }  # fmt: skip
        body = chance.randbytes(chance.randint(body_bytes // 2, body_bytes * 3 // 2))
        topic = f"topic-{min(int(chance.expovariate(0.3)), 11)}".encode()
        now = 1_750_000_000_000 + number
        record = build_record(
            topic,
            number % 4,
            number // 4,
            at,
            body,
            format_properties(properties),
            0,
            0,
            now - 5,
            born,
            now,
            store,
        )
        starts.append(at)
        records.append(record)
        at += len(record)
    return b"".join(records), np.array(starts, np.int64)


def written(folder: Path, megabytes: int, body_bytes: int) -> list[LogRange]:
    """Write segments and return them as pieces."""
    content, starts = page(body_bytes)
    fields = np.ndarray((len(content) - 7,), ">i8", bytearray(content), 0, (1,))
    pieces: list[LogRange] = []
    for base in range(0, megabytes * 1024 * 1024, SEGMENT_BYTES):
        path = folder / f"{base:020d}"
        at = 0
        with path.open("wb") as file:
            while at + len(content) + 8 <= SEGMENT_BYTES:
                fields[starts + 28] = starts + base + at
                fields[starts + 20] += PAGE_RECORDS // 4
                file.write(memoryview(fields.base))  # pyright: ignore[reportArgumentType]
                at += len(content)
            file.write(build_blank(SEGMENT_BYTES - at))
            file.truncate(SEGMENT_BYTES)
        pieces.append(LogRange(str(path), base, base, base + at, "broker-a"))
    return pieces


def existing(folder: Path) -> list[LogRange]:
    """Return the segments of a folder, each up to its end."""
    found = [(str(path), int(path.name), path.stat().st_size) for path in sorted(folder.iterdir())]
    return [LogRange(path, base, base, base + size, "broker-a") for path, base, size in found]


def checksummed(pieces: list[LogRange], *, crc: bool = True) -> int:
    buffer = memoryview(bytearray(1024 * 1024))
    found = 0
    for piece in pieces:
        left = piece.stop - piece.start
        with Path(piece.path).open("rb", buffering=0) as file:
            while left and (got := file.readinto(buffer[: min(left, len(buffer))])):
                found = zlib.crc32(buffer[:got], found) if crc else found
                left -= got
    return found


def decoded(pieces: list[LogRange], wanted: Wanted) -> int:
    lost: list[Damaged] = []
    rows = sum(batch.num_rows for piece in pieces for batch in read(piece, wanted, lost.append))
    assert not lost, lost[:3]
    return rows


def struct_loop(piece: LogRange, *, full: bool) -> pa.RecordBatch:
    """Decode in the obvious way, with a loop of `struct`."""
    with Path(piece.path).open("rb") as file:
        content = file.read(LOOP_BYTES)
    rows = list(loop_rows(content, full=full))
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in zip(*rows, strict=True)], [str(n) for n in range(len(rows[0]))]
    )


def loop_rows(content: bytes, *, full: bool) -> Iterator[tuple[object, ...]]:
    at, last = 0, len(content) - FIXED.size
    while at <= last:
        fixed = FIXED.unpack_from(content, at)
        size, body_size = fixed[0], fixed[-1]
        if at + size > len(content):
            return
        numbers = (*fixed[:9], fixed[10], *fixed[12:])
        if full:
            body_end = at + FIXED.size + body_size
            topic_end = body_end + 1 + content[body_end]
            yield (
                *numbers, fixed[9], fixed[11], content[body_end - body_size : body_end],
                content[body_end + 1 : topic_end].decode(), content[topic_end + 2 : at + size],
            )  # fmt: skip
        else:
            yield numbers
        at += size


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measured(pieces: list[LogRange], rounds: int) -> dict[str, float]:
    """Return CPU seconds of each variant, best of the rounds."""
    works: dict[str, Callable[[], object]] = {
        "plain read": lambda: checksummed(pieces, crc=False),
        "read and crc32": lambda: checksummed(pieces),
    }
    for name, (wanted, _) in VARIANTS.items():
        works[name] = lambda wanted=wanted: decoded(pieces, wanted)
    part = sum(piece.stop - piece.start for piece in pieces) / min(
        LOOP_BYTES, pieces[0].stop - pieces[0].start
    )
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            best[name] = min(best[name], cpu(work))
    for name, full in (("struct loop, header", False), ("struct loop, full", True)):
        best[name] = part * min(cpu(lambda full=full: struct_loop(pieces[0], full=full)) for _ in range(2))
    return best


def show(pieces: list[LogRange], rounds: int, goals: bool) -> None:
    size = sum(piece.stop - piece.start for piece in pieces)
    count = decoded(pieces, VARIANTS["header, 12 columns"][0])
    best = measured(pieces, rounds)
    reference = best["read and crc32"]
    if goals:
        report_rates(best, size / 1e6)
    print(f"{size / 1e6:.0f} MB, {count} messages of {size / count:.0f} B")
    for name, seconds in best.items():
        goal = VARIANTS[name][1] if goals and name in VARIANTS else 0
        loop = best["struct loop, header" if "header" in name else "struct loop, full"] / seconds
        print(
            f"  {name:26} {seconds:7.3f} s  {size / seconds / 1e6:6.0f} MB/s  {count / seconds / 1e6:6.2f} M/s  "
            f"ratio {reference / seconds:5.2f}{f'  goal {goal:.2f}' if goal else '           '}  {loop:5.1f} x loop"
        )


def report_rates(best: dict[str, float], megabytes: float) -> None:
    """Report the rates that have goals, by CPU time."""
    read_rate = megabytes / best["read and crc32"]
    for part, name in REPORTED.items():
        rate = megabytes / best[name]
        figure(f"spark_decode.{part}", rate, "MB/s", floor=read_rate, beside="read and crc32")
    loop = megabytes / best["struct loop, full"]
    figure(
        "spark_decode.loop", megabytes / best[REPORTED["full"]], "MB/s", floor=loop, beside="a struct loop"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bodies", default="80,1024,4096")
    parser.add_argument(
        "--data", type=Path, help="a store's commitlog folder, in place of generated segments"
    )
    options = parser.parse_args()
    print(provenance("reads only, pages in memory"))
    if options.data:
        show(existing(options.data), options.rounds, goals=True)
    for body_bytes in [] if options.data else map(int, options.bodies.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            show(written(Path(folder), options.megabytes, body_bytes), options.rounds, goals=body_bytes < 256)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
