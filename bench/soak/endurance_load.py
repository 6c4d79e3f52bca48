"""The load of an endurance run: journeys and readers in threads, a million delayed messages, and samples of them."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from delayed.delay_load import header_of
from gantry_link.connections.connection import connect
from gantry_loadtest.mixed.calling import Http
from gantry_loadtest.mixed.following import DeadLetters, Follower, Reader
from gantry_loadtest.mixed.journeys import ALL, ATTEMPTS_MAX, POISONED, TOPICS, WORKERS, Journey
from gantry_loadtest.mixed.ledger import Ledger
from gantry_loadtest.mixed.streams import KEYED, LONG, ORDERED, ORDERLY, PLAIN, SLOW, SlowWorkers
from gantry_wire.codes import RequestCode, ResponseCode

PENDING = "mixed-pending"
QUEUES = 2
DUE_SHARE = 0.05
"""This share of the pending messages becomes due within the run and is tracked; the others wait longer."""
WAIT_BEYOND_SECONDS = 3 * 3600
PAUSES = {"Delays": 0.04, "Transactions": 0.08, "Work": 0.03, "Poison": 0.2, "Workers": 0.05}
PREFILL_WINDOW = 256
AGAIN = {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}
"""Temporary refusals, including a full disk."""
SETTLED_SECONDS_MAX = 300.0


@dataclass
class Waiting:
    """The messages that stay delayed throughout."""

    wanted: int
    sent: int = 0
    due_in_run: int = 0
    seconds: float = 0.0
    is_done: bool = False


class EnduranceLoad:
    """All senders, consumers and readers."""

    def __init__(self, base: str, seed: int) -> None:
        self.base, self._seeds = base, itertools.count(seed)
        self.ledger, self.http = Ledger(), Http(base)
        self.journeys: list[Journey] = []
        self.readers: list[Reader] = []
        self.slow_taken = 0
        self._runs = itertools.count()

    def prepare(self) -> None:
        for topic in (*TOPICS, PLAIN, KEYED, ORDERED, PENDING):
            self._put(f"/v1/topics/{topic}", {"readQueues": QUEUES, "writeQueues": QUEUES, "perm": "rw"})
        for group, policy in (
            (WORKERS, {"retryMaxTimes": 16}),
            (POISONED, {"retryMaxTimes": ATTEMPTS_MAX}),
            (ORDERLY, {"retryMaxTimes": 64, "order": "shardingKey"}),
            (SLOW, {"retryMaxTimes": 16}),
        ):
            self._put(f"/v1/groups/{group}", policy)

    def _put(self, path: str, body: object) -> None:
        status, answer = self.http.insist("PUT", path, body)
        if status != 200:
            raise SystemExit(f"PUT {path}: {status} {answer}")

    def start(self) -> None:
        for topic in (PLAIN, KEYED, ORDERED, PENDING, "mixed-due", "mixed-txn", "mixed-work"):
            status, shown = self.http.insist("GET", f"/v1/topics/{topic}")
            if status != 200:
                raise SystemExit(f"GET {topic}: {status} {shown}")
            queues = [(queue["broker"], queue["queueId"]) for queue in shown["queues"]]
            if topic == PLAIN:  # held pulls, one a queue
                self.readers += [Follower(self.base, self.ledger, topic, [queue], 10) for queue in queues]
            else:
                self.readers.append(Follower(self.base, self.ledger, topic, queues))
        self.readers.append(DeadLetters(self.base, self.ledger, POISONED))
        for reader in self.readers:
            reader.start()
        for kind in (*ALL, *LONG):
            self._begin(kind)

    def _begin(self, kind: type[Journey]) -> None:
        journey = kind(self.base, self.ledger, next(self._seeds), f"{next(self._runs)}")
        journey.pause_seconds = PAUSES.get(kind.__name__, kind.pause_seconds)
        self.journeys.append(journey)
        journey.start()

    def tend(self) -> list[str]:
        """Restart journeys that a fault ended; return the faults."""
        faults: list[str] = []
        for journey in [one for one in self.journeys if one.failure is not None]:
            faults.append(f"{journey.name} ended: {journey.failure}")
            self.journeys.remove(journey)
            self._keep(journey)
            self._begin(type(journey))
        for reader in [one for one in self.readers if one.failure is not None]:
            faults.append(f"a reader ended: {reader.failure}")
            reader.failure = None
        return faults

    def _keep(self, journey: Journey) -> None:
        if isinstance(journey, SlowWorkers):
            self.slow_taken += journey.taken

    def figures(self) -> dict[str, int]:
        attempted, acknowledged = self.ledger.counted()
        return {
            "attempted": attempted, "acknowledged": acknowledged,
            "read": sum(reader.read for reader in self.readers),
            "skipped": sum(reader.skipped for reader in self.readers),
            "remembered": len(self.ledger.items),
        }  # fmt: skip

    def end(self) -> list[str]:
        """Stop the senders, wait until everything promised has arrived and is done, stop the others; return the faults."""
        faults = self._finish([journey for journey in self.journeys if journey.is_sender])
        until = time.monotonic() + SETTLED_SECONDS_MAX
        while time.monotonic() < until and (self.ledger.missing() or (self.ledger.undone() and self._lag())):
            time.sleep(2)
        time.sleep(5)  # duplicates and forbidden messages would arrive now
        faults += self._finish([journey for journey in self.journeys if not journey.is_sender])
        for reader in self.readers:
            reader.stopping = True
        for reader in self.readers:
            reader.join(60)
        for journey in self.journeys:
            self._keep(journey)
        return faults

    def _finish(self, journeys: list[Journey]) -> list[str]:
        faults: list[str] = []
        for journey in journeys:
            journey.stopping = True
        for journey in journeys:
            try:
                journey.finish()
            except BaseException as error:  # noqa: BLE001 - reported as a fault of the run
                faults.append(f"{journey.name} ended: {error}")
        return faults

    def _lag(self) -> int:
        """Return the remaining work of consumers. The ledger misses an ack whose answer never arrived."""
        answers = [self.http.insist("GET", f"/v1/groups/{group}/lag")[1] for group in (WORKERS, ORDERLY)]
        return sum(int(answer.get("total", 1)) for answer in answers)

    def slow_group(self) -> dict[str, int]:
        """Return the outcomes of the messages of the slow group."""
        status, shown = self.http.insist("GET", f"/v1/topics/{KEYED}")
        stored = sum(queue["maxOffset"] for queue in shown["queues"]) if status == 200 else 0
        _, lag = self.http.insist("GET", f"/v1/groups/{SLOW}/lag?topic={KEYED}")
        behind = int(lag.get("total", 0))
        return {
            "stored": stored, "acknowledged": self.slow_taken, "behind": behind,
            "agedOut": max(0, stored - behind - self.slow_taken),
        }  # fmt: skip


class Prefill(threading.Thread):
    """Sends the waiting messages over remoting; the ledger has those due within the run."""

    def __init__(self, address: str, ledger: Ledger, waiting: Waiting, run_seconds: float) -> None:
        super().__init__(daemon=True)
        self._address, self._ledger, self._waiting, self._run = address, ledger, waiting, run_seconds
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._fill())
        except BaseException as error:  # noqa: BLE001 - reported as a fault of the run
            self.failure = error

    async def _fill(self) -> None:
        waiting, began = self._waiting, time.monotonic()
        connection = await connect(self._address)
        rest = self._instants(int(time.time() * 1000))

        async def sender() -> None:
            for number, at_ms, is_followed in rest:
                name = f"Pending-{number}"
                item = self._ledger.attempt(name, "pending") if is_followed else None
                properties = f"UNIQ_KEY\x01{number:032d}\x02TIMER_DELIVER_MS\x01{at_ms}\x02"
                while True:
                    header = header_of(PENDING, properties)
                    answer = await connection.request(
                        RequestCode.SEND_MESSAGE_V2, header, name.encode(), timeout=120
                    )
                    if answer.code not in AGAIN:
                        break
                    await asyncio.sleep(0.1)
                if answer.code != 0:
                    raise RuntimeError(f"a delayed message was refused: {answer.code} {answer.remark}")
                waiting.sent += 1
                if item is not None:
                    item.due_ms, item.is_acknowledged = at_ms, True
                    waiting.due_in_run += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(PREFILL_WINDOW):
                group.create_task(sender())
        connection.close()
        waiting.seconds, waiting.is_done = time.monotonic() - began, True

    def _instants(self, now_ms: int) -> Iterator[tuple[int, int, bool]]:
        """Yield numbers with their instants: some spread over the run, the others long after it."""
        every = round(1 / DUE_SHARE)
        first, span = now_ms + 30_000, max(int(self._run * 1000) - 40_000, 1000)
        for number in range(self._waiting.wanted):
            if number % every == 0:
                yield number, first + span * number // self._waiting.wanted, True
            else:
                later = now_ms + int((self._run + WAIT_BEYOND_SECONDS) * 1000)
                yield number, later + number * 7919 % 3_600_000, False
