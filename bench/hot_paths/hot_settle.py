"""CPU of the store for delayed messages and transactions: frames replayed through its real handlers, without sockets and processes.

    python bench/hot_paths/hot_settle.py [--count 32000] [--only KIND] [--flush sync|async] [--profile] [--directory /dev/shm]

Prints CPU microseconds (of this process, so other load hardly counts): of a plain send, for comparison; of a settled delayed message, in batches of 128 like the
scheduler's; of a half sent and of its commit, 32 a turn. A transaction costs both. The loop, the
sockets and the flush thread are excluded. `--profile` shows where the time goes (and slows it down).
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from broker_store.groups.clients import ClientTable
from broker_store.process.assembly import GC_THRESHOLDS
from broker_store.process.parts.transactions import Transactions
from broker_store.transactions.producer_checks import Producers, Relays
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import EndTransactionHeader, SendHeaderV2
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleBody, SettleHeader, SettleItem, SettleOutput
from gantry_wire.records.units import CONSUME_QUEUE_UNIT
from hot_paths.hot_send import BODY, PARTS, TOPIC, NowherePeer, Store, unique_key
from reporting.figures import figure

SETTLE_ITEMS = 128
TURN_FRAMES = 32
COMMIT = 8
GROUP = "benchmark_producer"
TIMER_DROP = (
    "REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS",
    "TIMER_DELAY_LEVEL", "TIMER_DEL_UNIQKEY",
)  # fmt: skip
"""The properties that the scheduler drops of a timed message."""
KINDS = ("send", "settle, instants", "settle, levels", "half", "commit")


def _may_send(_peer: object, _topic: str) -> bool:
    return True


class SettlingStore(Store):
    """A store with its transactions, flushed by the benchmark at the end of each turn."""

    def __init__(self, directory: Path, flush: Any) -> None:
        super().__init__(directory, flush)
        sending = self.sending
        self.classes["send"].wait_ms_max = 60_000  # a pause of the machine must not refuse a turn
        self.transactions = Transactions(
            sending.store, sending, Producers(ClientTable(), _may_send, Relays()), self.classes["endTransaction"], _in_loop,
            ConnectionPool(), "127.0.0.1:10911", lambda: None,
        )  # fmt: skip
        self.table.add_all(self.transactions.commands())

    def replay(self, data: bytes, peer: NowherePeer, decoder: FrameDecoder) -> None:
        """Handle the frames of one turn, and flush them."""
        super().replay(data, peer, decoder)
        self.classes["endTransaction"].end_turn()
        appends = self.sending.appends
        while self.flusher.wanted or self._work or not appends.is_idle:
            if not self.flusher.wanted and not self._work:
                appends.flush()  # it would wait for more, and this turn has no more
            self.flusher.wanted = 0
            appends.synced(self.sending.store.log.sync())
            work, self._work = self._work, {}
            for callback in work:
                callback()  # pyright: ignore[reportCallIssue]

    def places(self, topic: str, first: int = 0) -> list[tuple[int, int]]:
        """Return offset and position of every message in queue 0 from an offset on."""
        queue = self.sending.store.queues.find(topic, 0)
        assert queue is not None
        units = queue.read(first, queue.max_offset - first)
        return [(offset, unit[0]) for offset, unit in enumerate(CONSUME_QUEUE_UNIT.iter_unpack(units), first)]

    def epoch(self, topic: str) -> int:
        """Claim queue 0 of a topic."""
        settling = self.sending.settling
        (claim,) = settling.claims.claim([(topic, 0)], "bench", "127.0.0.1:1", 60_000, 1, settling.mono_ms())
        return claim.epoch


async def _in_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def sends(count: int, properties: str, sys_flag: int = 0) -> Iterator[bytes]:
    """Sends with further properties, a turn at a time."""
    for first in range(0, count, TURN_FRAMES):
        yield b"".join(
            encode_request(
                RequestCode.SEND_MESSAGE_V2,
                number,
                SendHeaderV2(
                    producer_group=GROUP, topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=number % 4,
                    sys_flag=sys_flag, born_timestamp=1_700_000_000_000 + number, flag=0,
                    properties=f"UNIQ_KEY\x01{unique_key(number)}\x02WAIT\x01true\x02{properties}", reconsume_times=0,
                    unit_mode=False, max_reconsume_times=0, batch=False, broker_name="broker-a",
                ),
                BODY,
            )
            for number in range(first, first + TURN_FRAMES)
        )  # fmt: skip


def settles(store: SettlingStore, topic: str, drop: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the scheduler's requests for all items of queue 0, one a turn."""
    header = SettleHeader(topic=topic, queue_id=0, epoch=store.epoch(topic))
    places = store.places(topic)
    for first in range(0, len(places), SETTLE_ITEMS):
        items = [
            SettleItem(
                offset, position, [SettleOutput(TOPIC, offset % 4, drop=drop)], "delivered", force=True
            )
            for offset, position in places[first : first + SETTLE_ITEMS]
        ]
        yield encode_request(GantryCode.SETTLE, first, header, msgspec.json.encode(SettleBody(items)))


def commits(store: SettlingStore, halves: Iterator[bytes]) -> Iterator[bytes]:
    """Yield one-way commits, a turn at a time: those of halves that were just sent."""
    peer, decoder, first = NowherePeer(), FrameDecoder(), 0
    for turn in halves:
        store.replay(turn, peer, decoder)
        yield b"".join(commit_frames(store.places(HALF_TOPIC, first)))
        first += TURN_FRAMES


def commit_frames(places: list[tuple[int, int]]) -> list[bytes]:
    """Commits of the halves at these places."""
    return [
        encode_request(
            RequestCode.END_TRANSACTION,
            offset,
            EndTransactionHeader(
                producer_group=GROUP, tran_state_table_offset=offset, commit_log_offset=position, commit_or_rollback=COMMIT,
                from_transaction_check=False, msg_id=unique_key(offset), transaction_id=unique_key(offset),
            ),
            oneway=True,
        )
        for offset, position in places
    ]  # fmt: skip


def measure(
    name: str, data: Iterator[bytes], count: int, store: SettlingStore, options: argparse.Namespace
) -> None:
    """Replay a stream, timed in parts; creating it is not timed."""
    peer, decoder = NowherePeer(), FrameDecoder()
    profiler = cProfile.Profile()
    each: list[float] = []
    for turn in data:
        if options.profile:
            profiler.enable()
        began = time.process_time()
        store.replay(turn, peer, decoder)
        each.append(time.process_time() - began)
        profiler.disable()
    if options.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(32)
    turns = len(each)
    step = max(1, turns // PARTS)
    parts = [each[first : first + step] for first in range(0, turns, step)]
    took = sorted(sum(part) / len(part) * turns / count * 1e6 for part in parts)
    words = f"best part; median {took[len(took) // 2]:.2f}"
    figure(f"hot_settle.{name}", took[0], "us", words=words)


def fill(store: SettlingStore, data: Iterator[bytes]) -> None:
    """Replay a stream without measuring."""
    peer, decoder = NowherePeer(), FrameDecoder()
    for turn in data:
        store.replay(turn, peer, decoder)


def run_kind(kind: str, store: SettlingStore, options: argparse.Namespace) -> None:
    """Prepare and measure one kind, and check that all of it was done."""
    count = options.count - options.count % SETTLE_ITEMS
    if kind.startswith("settle"):
        topic, drop, asked = (
            (TIMER_TOPIC, TIMER_DROP, f"TIMER_DELIVER_MS\x01{int(time.time() * 1000) + 600_000}\x02")
            if "instants" in kind
            else (SCHEDULE_TOPIC, ("__GANTRY_DELAY_MS",), "DELAY\x011\x02")
        )
        fill(store, sends(count, asked))
        measure(kind, settles(store, topic, drop), count, store, options)
        assert store.sending.settling.settled_items == count
        return
    if kind == "send":
        measure(kind, sends(count, ""), count, store, options)
        return
    halves = sends(count, f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02", sys_flag=4)
    if kind == "half":
        measure(kind, halves, count, store, options)
        return
    measure(kind, commits(store, halves), count, store, options)
    assert store.transactions.metrics.committed == count


async def run(options: argparse.Namespace) -> None:
    gc.set_threshold(*GC_THRESHOLDS)  # as the store does
    for kind in KINDS:
        if options.only in kind:
            with tempfile.TemporaryDirectory(dir=options.directory) as directory:
                run_kind(kind, SettlingStore(Path(directory), options.flush), options)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=32_000, help="messages of each kind")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--flush", default="sync", choices=("sync", "async"))
    parser.add_argument("--profile", action="store_true", help="print where the time goes (slows it down)")
    parser.add_argument("--directory", default="/dev/shm", help="folder of the store")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
