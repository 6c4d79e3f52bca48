"""The time until a store is ready after kill -9, and the time to rebuild its queues and index from the log alone.

Each is compared with a plain read with crc32 of the same bytes in the same run.

    python bench/store_speed/recovery.py [--megabytes 1000] [--body 60]
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self
from zlib import crc32

import uvloop

from gantry_link.connections.connection import connect
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.messages.batch import BatchItem, encode_batch
from measuring.system import end_in_order, provenance
from reporting.figures import figure

TOPIC = "recovery"
QUEUES = 8
BATCH = 200
WINDOW = 16
SEGMENT_BYTES = 1 << 30
READY = re.compile(r"ready address=[\d.]+:(\d+)")
RECOVERED = re.compile(r"log recovered start=(\d+) end=(\d+)")
READY_SECONDS_MAX = 300.0
READ = "plain read with CRC"


class Store:
    """A store process on its own ports, with its log lines in a file; killed when the context ends."""

    def __init__(self, folder: Path) -> None:
        self.directory, self.log = folder / "store", folder / "store.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        end_in_order()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.end(signal.SIGKILL)

    def start(self) -> float:
        """Start it; return the seconds until it was ready."""
        words = [f"store_dir={self.directory}", "port=0", "flush=async", f"segment_bytes={SEGMENT_BYTES}"]
        command = [
            sys.executable,
            "-m",
            "broker_store",
            *(word for pair in words for word in ("--set", pair)),
        ]
        began, size = time.perf_counter(), self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(command, stderr=output)
        while time.perf_counter() - began < READY_SECONDS_MAX:
            time.sleep(0.01)
            found = READY.search(self.log.read_text()[size:])
            if found:
                self.address = f"127.0.0.1:{found[1]}"
                return time.perf_counter() - began
            if self._process.poll() is not None:
                break
        sys.exit(f"the store did not become ready: {self.log.read_text()[-2000:]}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(120)

    def recovered(self) -> tuple[int, int]:
        """Return the range that the last start walked."""
        start, end = RECOVERED.findall(self.log.read_text())[-1]
        return int(start), int(end)


async def fill(address: str, megabytes: int, body: bytes) -> int:
    """Send batches until the log has this size; return the number of messages."""
    connection = await connect(address)
    record_bytes = 91 + len(body) + len(TOPIC) + 45 + 63
    batches = megabytes * 1_000_000 // record_bytes // BATCH
    numbers = iter(range(batches))

    async def sender() -> None:
        for number in numbers:
            items = [
                BatchItem(0, body, b"UNIQ_KEY\x01%032X\x02" % (number * BATCH + n)) for n in range(BATCH)
            ]
            header = SendHeaderV2(
                producer_group="bench", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=QUEUES,
                queue_id=number % QUEUES, sys_flag=0, born_timestamp=0, flag=0, properties="", batch=True,
            )  # fmt: skip
            while True:
                answer = await connection.request(
                    RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items), timeout=60
                )
                if answer.code != ResponseCode.SYSTEM_BUSY:  # the answer of a busy machine
                    break
                await asyncio.sleep(0.05)
            if answer.code != 0:
                sys.exit(f"a batch was refused: {answer.code} {answer.remark}")

    await asyncio.gather(*(sender() for _ in range(WINDOW)))
    connection.close()
    return batches * BATCH


def plain_read(store: Store, start: int, end: int) -> float:
    """Return the seconds of only reading and checksumming these log bytes."""
    began = time.perf_counter()
    for path in sorted((store.directory / "commitlog").iterdir()):
        base = int(path.name)
        with path.open("rb") as file:
            file.seek(max(start - base, 0))
            left = min(end, base + SEGMENT_BYTES) - max(start, base)
            while left > 0 and (data := file.read(min(left, 1 << 20))):
                crc32(data)
                left -= len(data)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--body", type=int, default=44, help="bytes; 44 makes records of 250")
    arguments = parser.parse_args()
    print(f"recovery; {provenance('async')}")
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder, Store(Path(folder)) as store:
        fresh = store.start()
        began = time.perf_counter()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            count = runner.run(fill(store.address, arguments.megabytes, b"x" * arguments.body))
        took = time.perf_counter() - began
        print(
            f"filled with {count:,} messages in {took:.1f} s, {count / took:,.0f} msg/s; empty start {fresh:.2f} s"
        )
        store.end(signal.SIGKILL)
        ready = store.start()
        start, end = store.recovered()
        plain = plain_read(store, start, end)
        words = f"{(end - start) / 1e6:,.0f} MB above the checkpoint"
        figure("recovery.ready", ready, "s", floor=plain, beside=READ, words=words)
        store.end(signal.SIGTERM)
        shutil.rmtree(store.directory / "consumequeue")
        shutil.rmtree(store.directory / "index")
        rebuilt = store.start()
        plain = plain_read(store, 0, end)
        each = 1e9 / end
        figure("recovery.rebuild", rebuilt * each, "s/GB", floor=plain * each, beside=READ)
        store.end(signal.SIGTERM)


if __name__ == "__main__":
    main()
