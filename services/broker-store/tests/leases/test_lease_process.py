"""The real process, killed with leased messages: acknowledgements hold, everything else is due at once."""

import asyncio
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gantry_link.calling.call_pattern import CallPattern
from gantry_link.clients.leases import LeaseClient, Received, received_of, statuses_of
from gantry_link.clients.store import StoreClient, batch_stored_of
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.codes import GantryCode
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.messages.batch import BatchItem
from gantry_wire.private_requests.leases import (
    ItemKind,
    ItemStatus,
    LeaseItem,
    LeaseItemsHeader,
    LeaseStateHeader,
    ReceiveHeader,
    WaitHeader,
    pack_items,
)
from gantry_wire.records.message_record import scan_records

pytestmark = [pytest.mark.cluster, pytest.mark.anyio, pytest.mark.timeout(180)]
READY = re.compile(r"ready address=[\d.]+:(\d+)")
ROOT = Path(__file__).resolve().parents[4]
SOURCES = [
    ROOT / part
    for part in ("libs/wire/src", "libs/link/src", "libs/chassis/src", "services/broker-store/src")
]
SECONDS = 60.0


class StoreRun:
    """A store process in a directory, until it is killed."""

    def __init__(self, directory: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
        settings = [f"store_dir={directory}", "port=0", "send_wait_ms_max=60000"]
        words = [word for one in settings for word in ("--set", one)]
        command = [sys.executable, "-m", "broker_store", *words]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=environment
        )
        lines: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            lines.append(line)
            if found := READY.search(line):
                self.address = f"127.0.0.1:{found[1]}"
                break
        else:
            raise AssertionError("".join(lines))
        self.reader = threading.Thread(target=self.process.stderr.read)
        self.reader.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def runs():
    started: list[StoreRun] = []
    yield started
    for run in started:
        run.kill()


def bodies(received: Received) -> list[str]:
    return [record.body.decode() for record in scan_records(bytes(received.records))]


def items(received: Received, kind: ItemKind, *chosen: int) -> list[LeaseItem]:
    records = list(scan_records(bytes(received.records)))
    leases = [run.lease for run in received.runs for _ in range(run.records)]
    return [LeaseItem(kind, 0, records[n].queue_id, records[n].queue_offset, leases[n]) for n in chosen]


async def answer_to(start, *arguments):
    answer = asyncio.get_running_loop().create_future()
    start(*arguments, answer)
    return await answer


async def receive(client: LeaseClient) -> Received:
    ask = ReceiveHeader(group="g", topic="orders", max_messages=10, invisible_ms=600_000)
    return received_of(await answer_to(client.start_receive, CallPattern(GantryCode.RECEIVE, ask)))


async def settle(client: LeaseClient, chosen: list[LeaseItem]) -> bytes:
    pattern = CallPattern(GantryCode.ACK, LeaseItemsHeader(group="g", topic="orders"))
    return statuses_of(await answer_to(client.start_settle, pattern, pack_items(chosen)))


async def test_a_killed_store_keeps_its_acknowledgements_and_redelivers_the_rest(
    tmp_path, runs, anyio_backend
):
    runs.append(StoreRun(tmp_path))
    pool = ConnectionPool()
    send = SendHeaderV2(
        producer_group="p", topic="orders", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0,
        sys_flag=0, born_timestamp=1, flag=0, batch=True, properties="",
    )  # fmt: skip
    messages = [BatchItem(0, b"%d" % n, b"UNIQ_KEY\x01%032d\x02" % n) for n in range(10)]
    store = StoreClient(pool, runs[0].address, SECONDS)
    batch_stored_of(await answer_to(store.start_send_batch, send, messages))
    client = LeaseClient(pool, runs[0].address, SECONDS)
    first = await receive(client)
    assert bodies(first) == [str(n) for n in range(10)]
    done = await settle(client, items(first, ItemKind.ACK, 0, 1, 4))
    assert set(done) == {ItemStatus.DONE}
    assert not (await receive(client)).runs
    (state,) = [
        one
        for one in await client.states(LeaseStateHeader(group="g"))
        if one.topic == "orders" and one.leased
    ]
    assert (state.offset, state.leased) == (2, 7)
    runs[0].kill()

    runs.append(StoreRun(tmp_path))
    client = LeaseClient(pool, runs[1].address, SECONDS)
    assert await client.wait(WaitHeader(group="g", topic="orders", wait_id=1, wait_ms=30_000))
    late = await settle(client, items(first, ItemKind.ACK, 2))
    assert list(late) == [ItemStatus.DONE]
    second = await receive(client)
    assert bodies(second) == ["3", "5", "6", "7", "8", "9"]
    late = await settle(client, items(first, ItemKind.ACK, 3, 0))
    assert list(late) == [ItemStatus.EXPIRED, ItemStatus.DONE]
    assert set(await settle(client, items(second, ItemKind.ACK, *range(6)))) == {ItemStatus.DONE}
    assert await StoreClient(pool, runs[1].address, SECONDS).consumer_offset("g", "orders", 0) == 10
    await pool.close()
