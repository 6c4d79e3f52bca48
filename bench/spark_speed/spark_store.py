"""The log of Spark's benchmarks: the directory of a stopped store, an existing one or one that Gantry's store just wrote."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import uvloop

from gantry_wire.codes import RequestCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import SendHeaderV2
from store_speed.flood import KEY_PLACE, Sends, flood
from store_speed.store_send import store

TOPICS, QUEUES, TAGS = 12, 4, 5
BODY_BYTES = 40
"""Makes messages of about 250 B in the log."""
FILL_SECONDS = 2.0
SEGMENT_BYTES = 256 * 1024 * 1024
TOPIC = "topic-0"
"""One of the topics of a log written here."""


class Orders(Sends):
    """Sends with one of five tags and a unique key property, in addition to the unique key: the hardest case for sketches."""

    def __init__(self, topic: str, body_bytes: int) -> None:
        """Messages of one topic; their born time is now."""
        self._parts: list[list[bytes]] = []
        self._number = time.time_ns()
        for number in range(QUEUES * TAGS):
            properties = f"UNIQ_KEY\x01{KEY_PLACE}\x02KEYS\x01order-{KEY_PLACE}\x02TAGS\x01tag-{number % TAGS}\x02WAIT\x01true\x02"
            header = SendHeaderV2(
                producer_group="flood", topic=topic, default_topic="TBW102", default_topic_queue_nums=QUEUES,
                queue_id=number % QUEUES, sys_flag=0, born_timestamp=int(time.time() * 1000), flag=0, properties=properties,
            )  # fmt: skip
            frame = encode_request(RequestCode.SEND_MESSAGE_V2, 7, header, os.urandom(body_bytes))
            self._parts.append(frame.split(KEY_PLACE.encode()))

    def frames(self, count: int) -> bytes:
        """Return the next `count` frames, joined."""
        first = self._number
        self._number = first + count
        some = len(self._parts)
        return b"".join(
            (b"%032X" % number).join(self._parts[number % some]) for number in range(first, first + count)
        )


@contextmanager
def stopped_store(given: Path | None, megabytes: int, body_bytes: int = BODY_BYTES) -> Generator[Path]:
    """Yield `given`, or a directory with this many megabytes of log, messages in twelve topics, which is removed afterwards."""
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="gantry-spark-log-") as name:
        folder = Path(name)
        with store("async", name, f"segment_bytes={SEGMENT_BYTES}", "send_wait_ms_max=60000") as running:
            uvloop.run(fill(running[1], folder, megabytes, body_bytes))
        yield folder


async def fill(port: int, folder: Path, megabytes: int, body_bytes: int) -> None:
    """Send to one topic after the other until the log has this size."""
    number = 0
    while written_bytes(folder) < megabytes * 1_000_000:
        sends = Orders(f"topic-{number % TOPICS}", body_bytes)
        await flood(f"127.0.0.1:{port}", sends, seconds=FILL_SECONDS)
        number += 1


def written_bytes(folder: Path) -> int:
    """Return the approximate size of the log: the written blocks of its segments."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("commitlog/*"))


def read_with_crc(folder: Path) -> tuple[float, int]:
    """Return the time of a sequential read with CRC32 of every byte of a log, and the bytes."""
    buffer = bytearray(1 << 20)
    view, began, total, crc = memoryview(buffer), time.perf_counter(), 0, 0
    for path in sorted(folder.rglob("commitlog/*")):
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                crc = crc32(view[:count], crc)
                total += count
    return time.perf_counter() - began, total
