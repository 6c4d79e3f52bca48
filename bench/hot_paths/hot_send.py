"""CPU of the send path: a Java client's frames, replayed through the store's real handlers, without sockets and processes.

    python bench/hot_paths/hot_send.py [--count 64000] [--only KIND] [--profile]

Prints CPU microseconds per message (of this process, so other load hardly counts), for single sends with JSON and binary
headers, plain and with an idempotency key, and for batches of 32. The loop, the sockets and the flush thread are excluded. `--profile` shows where the time goes.
"""

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Literal

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.flusher import Synced
from broker_store.commit.visible.store_events import StoreListeners
from broker_store.log.commit_log.sync_thread import Failed
from broker_store.log.files.real_files import RealFiles
from broker_store.log.snapshot import Snapshots
from broker_store.opening.opening import Opening
from broker_store.process.foundation import Surroundings, build_foundation
from broker_store.process.parts.sending import Sending
from broker_store.requests.command_table import CommandTable
from broker_store.requests.request_classes import request_classes
from broker_store.settings import Settings
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.codes import RequestCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, JSON, FrameDecoder
from gantry_wire.frames.known_headers import KnownHeaders
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.messages.ids import pack_host
from reporting.figures import figure

BODY = b"x" * 128
TURN_FRAMES = 8
"""Frames that arrive in one turn of the loop: as from a producer of 32 threads."""
BATCH = 32
TOPIC = "BenchmarkTest"
PARTS = 40
"""The stream is measured in this many parts: the best one was least disturbed by other load."""


class NowherePeer:
    """Takes answers and drops them."""

    def __init__(self) -> None:
        self.attributes: dict[str, object] = {}
        self.remote = ("127.0.0.1", 40000)
        self.sent = 0
        self.is_closing = False

    def send(self, data: bytes) -> None:
        self.sent += len(data)


class NoReaders:
    """Nobody waits for messages."""

    held_count = 0

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:  # noqa: ARG002
        raise AssertionError("nothing is held here")

    def answer_arrivals(self) -> None:
        raise AssertionError("nothing is held here")


class NoMetrics:
    """Counts nothing: the excluded flush thread would distort the times."""

    def put_took_us(self, us: int, count: int) -> None:
        pass

    def on_flush(self, us: int, batch_count: int) -> None:
        pass


class CountedSyncs:
    """Counts requests for a sync, which the benchmark makes."""

    holds_all = False
    accepts_sends = True
    may_answer_alone: Callable[[], bool] | None = None

    def __init__(self) -> None:
        self.wanted = 0

    def request(self) -> None:
        self.wanted += 1

    def start(self, on_synced: Synced, on_failed: Failed) -> None:
        pass

    async def stop(self) -> None:
        pass


class Store:
    """The sending half of a store on real files; the benchmark ends its turns."""

    def __init__(self, directory: Path, flush: Literal["sync", "async"] = "async") -> None:
        clock = StoreClock(time.time, time.monotonic)
        settings = Settings(store_dir=directory, flush=flush, zero_ahead_bytes=0)
        opening = Opening(settings, RealFiles(), clock, pack_host("127.0.0.1", 10911), machine())
        for _ in opening.run():
            pass
        self.classes = classes = request_classes()
        self._work: dict[object, None] = {}
        self.flusher = CountedSyncs()
        thread = machine().workers(1, "disk")
        around = Surroundings(
            settings, RealFiles(), classes, Metrics(), clock.now_ms, Hints("", "bench", Random(1)),
            ConnectionPool(), "127.0.0.1:10911", lambda: None, Snapshots(RealFiles(), str(directory), machine().secret_bytes),
        )  # fmt: skip
        foundation = build_foundation(around, opening.store, thread)
        reading = replace(foundation.reading, metrics=NoMetrics())  # pyright: ignore[reportArgumentType]
        foundation = replace(foundation, reading=reading)
        self.sending = Sending(
            opening.store, classes, foundation, self._at_turn_end, self.flusher, thread, fast_paths=True
        )
        targets, appends = self.sending.targets, self.sending.appends
        changed = [targets.forget, self.sending.topic_changed]
        opening.store.events.connect(
            StoreListeners(appends.place_now, NoReaders(), changed, [], [], [], appends.work.set)
        )
        self.table = CommandTable(self.classes, KnownHeaders(), None)
        self.table.add_all(self.sending.commands())
        self.table.add_quick(self.sending.plain.take, self.sending.send_one)
        opening.store.topics.ensure(TOPIC, 4)

    def _at_turn_end(self, work: object) -> None:
        self._work[work] = None

    def replay(self, data: bytes, peer: NowherePeer, decoder: FrameDecoder) -> None:
        """Handle the frames of one turn."""
        for raw in decoder.receive(data):
            self.table.receive(peer, raw)  # pyright: ignore[reportArgumentType]
        work, self._work = self._work, {}
        for callback in work:
            callback()  # pyright: ignore[reportCallIssue]


def header(number: int, properties: str, *, batch: bool) -> SendHeaderV2:
    """Return the header that the Java client fills in."""
    return SendHeaderV2(
        producer_group="benchmark_producer", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=number % 4, sys_flag=0, born_timestamp=1_700_000_000_000 + number, flag=0,
        properties=properties, reconsume_times=0, unit_mode=False, max_reconsume_times=0, batch=batch, broker_name="broker-a",
    )  # fmt: skip


def unique_key(number: int) -> str:
    return f"7F0000010B2C63947C6B8D4F{number // 1000:04X}{number % 1000:04X}"


def plain_text(number: int) -> str:
    """Return the properties that every Java client sets."""
    return f"UNIQ_KEY\x01{unique_key(number)}\x02WAIT\x01true\x02"


def keyed_text(number: int) -> str:
    """Return the properties that a gateway sets for a message with an idempotency key."""
    return f"UNIQ_KEY\x01{unique_key(number)}\x02__GANTRY_KEY\x01{number:016d}\x02"


def turns(count: int, serialize_type: int, text_of: Callable[[int], str] = plain_text) -> Iterator[bytes]:
    """Single sends, a turn at a time."""
    for first in range(0, count, TURN_FRAMES):
        yield b"".join(
            encode_request(
                RequestCode.SEND_MESSAGE_V2,
                number,
                header(number, text_of(number), batch=False),
                BODY,
                serialize_type=serialize_type,
            )
            for number in range(first, first + TURN_FRAMES)
        )


def batch_turns(count: int) -> Iterator[bytes]:
    """Batches, two a turn."""
    for first in range(0, count, 2 * BATCH):
        yield b"".join(_batch(first + BATCH * number) for number in range(2))


def _batch(first: int) -> bytes:
    items = [
        BatchItem(0, BODY, f"UNIQ_KEY\x01{unique_key(number)}\x02WAIT\x01true\x02".encode())
        for number in range(first, first + BATCH)
    ]
    properties = f"UNIQ_KEY\x01{unique_key(first)}\x02WAIT\x01true\x02"
    return encode_request(
        RequestCode.SEND_BATCH_MESSAGE,
        first,
        header(first // BATCH, properties, batch=True),
        encode_batch(items),
    )


def measure(name: str, data: list[bytes], count: int, store: Store, *, profile: bool) -> None:
    """Replay the first quarter of a stream unmeasured, then the rest measured."""
    peer, decoder = NowherePeer(), FrameDecoder()
    warm = len(data) // 4
    for turn in data[:warm]:
        store.replay(turn, peer, decoder)
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    each: list[float] = []
    step = max(1, len(data) // PARTS)
    for first in range(warm, len(data) - step + 1, step):
        began = time.process_time()
        for turn in data[first : first + step]:
            store.replay(turn, peer, decoder)
        each.append((time.process_time() - began) / step * len(data) / count * 1e6)
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(28)
    words = f"best part; median {sorted(each)[len(each) // 2]:.2f}"
    figure(f"hot_send.{name}", min(each), "us", words=words)


async def run(options: argparse.Namespace) -> None:
    count = options.count - options.count % (2 * BATCH)
    kinds = {
        "single, JSON header": lambda: list(turns(count, JSON)),
        "single, binary header": lambda: list(turns(count, BINARY)),
        "keyed, JSON header": lambda: list(turns(count, JSON, keyed_text)),
        "keyed, binary header": lambda: list(turns(count, BINARY, keyed_text)),
        f"batch of {BATCH}": lambda: list(batch_turns(count)),
    }
    for name, make in kinds.items():
        if options.only in name:
            with tempfile.TemporaryDirectory(dir=options.directory) as directory:
                measure(name, make(), count, Store(Path(directory)), profile=options.profile)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=64_000, help="messages of each kind")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--profile", action="store_true", help="print where the time goes (slows it down)")
    parser.add_argument("--directory", default=None, help="folder of the store (default: the system's)")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
