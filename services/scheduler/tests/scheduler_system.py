"""Starts a nameserver, stores and schedulers as processes on free ports, and a client that sends and reads."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from gantry_link.clients.scheduler import SchedulerClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import claim_holder
from gantry_wire.headers.admin import CreateTopicHeader
from gantry_wire.headers.messages import PullHeader, SendHeaderV2
from gantry_wire.messages.properties import format_properties
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.scheduling import ListTasks
from gantry_wire.records.message_record import scan_records

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [ROOT / part for part in ("libs/wire/src", "libs/link/src", "libs/chassis/src")] + [
    ROOT / "services" / name / "src" for name in ("nameserver", "broker-store", "scheduler")
]
READY = {
    "nameserver": re.compile(r"ready .*remoting=[\d.]+:(\d+)"),
    "broker_store": re.compile(r"ready address=[\d.]+:(\d+)"),
    "scheduler": re.compile(r"ready .*remoting=[\d.]+:(\d+)"),
}
START_SECONDS = 60
PORT_TRIES, PORT_SECONDS = 100, 0.2


class PortTaken(AssertionError):
    """A killed process left its port, and a connection of another process has it as its own end now: such a port is free again soon."""


class Process:
    """A running service, ready."""

    def __init__(self, module, **settings):
        arguments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES)), "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.lines, self.port = [], 0
        for line in self.process.stderr:
            self.lines.append(line)
            if found := READY[module].search(line):
                self.port = int(found[1])
                break
        else:
            self.process.wait()
            self.process.stderr.close()
            said = "".join(self.lines)
            raise (PortTaken if "already in use" in said else AssertionError)(said)
        self._drain = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self._drain.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    async def says(self, words, times=1):
        """Wait until its log has this many lines with these words."""
        async with asyncio.timeout(60):
            while sum(words in line for line in list(self.lines)) < times:
                await asyncio.sleep(0.02)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self._drain.join(10)
        self.process.stderr.close()


class System:
    """The processes of one test; they end with it."""

    def __init__(self, directory):
        self.directory, self.processes = directory, []
        self.nameserver = self.start("nameserver", port=0, http_port=0, data_dir=directory / "ns")
        self.pool = ConnectionPool()
        self.store_process = None
        self.schedulers = 0

    def start(self, module, **settings):
        for tries in range(1, PORT_TRIES + 1):
            try:
                process = Process(module, **settings)
            except PortTaken:
                if tries == PORT_TRIES:
                    raise
                time.sleep(PORT_SECONDS)
            else:
                self.processes.append(process)
                return process
        raise AssertionError("unreachable")

    async def start_store(self, port=0, **more):
        self.store_process = await asyncio.to_thread(
            self.start,
            "broker_store",
            store_dir=self.directory / "store",
            broker_name="broker-a",
            port=port,
            nameservers=self.nameserver.address,
            send_wait_ms_max=60_000,  # how busy the machine is, is not asked here
            **more,
        )
        self.store = StoreClient(self.pool, self.store_process.address, 20.0)
        return self.store_process

    async def start_scheduler(self, number=None, **more):
        """Start a scheduler with a new directory, or with the directory of an earlier one by number, from 1."""
        self.schedulers += number is None
        return await asyncio.to_thread(
            self.start,
            "scheduler",
            port=0,
            http_port=0,
            data_dir=self.directory / f"scheduler-{number or self.schedulers}",
            nameservers=self.nameserver.address,
            poll_seconds=0.5,
            **more,
        )

    async def holder(self):
        """Wait for a scheduler to hold the claims; return its address."""
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(Exception):
                    found = await claim_holder(self.store, SCHEDULE_TOPIC, 0)
                    if found is not None:
                        return found.address
                await asyncio.sleep(0.05)

    async def client(self):
        """Wait until a scheduler works on the store. Its first claim names it before it has all claims and has read the tasks."""
        async with asyncio.timeout(60):
            while True:
                client = SchedulerClient(self.pool, await self.holder(), 20.0)
                with contextlib.suppress(BrokerRefused, LinkError):
                    page = await client.list_tasks(ListTasks())
                    if page.brokers and not page.incomplete:
                        return client
                await asyncio.sleep(0.05)

    async def topic(self, name, queues=1, perm=6):
        await self.store.create_topic(
            CreateTopicHeader(
                topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=perm,
                topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
            )
        )  # fmt: skip

    async def send(self, topic, body, uniq, **properties):
        """Send a message, delayed as its properties say."""
        header = SendHeaderV2(
            producer_group="pg", topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
            born_timestamp=int(time.time() * 1000), flag=0,
            properties=format_properties({"UNIQ_KEY": uniq, **properties}).decode(),
        )  # fmt: skip
        return await self.store.send(header, body)

    async def bodies(self, topic, queue_id=0):
        """Return the bodies a topic's queue holds now."""
        return [record.body for record in await self.records(topic, queue_id)]

    async def records(self, topic, queue_id=0):
        offset, found = 0, []
        while True:
            pulled = await self.store.pull(
                PullHeader(
                    consumer_group="TOOLS_CONSUMER", topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=32,
                    sys_flag=4, subscription="*",
                )
            )  # fmt: skip
            if pulled.code not in (0, 20):
                return found
            found += scan_records(pulled.records)
            offset = pulled.next_offset

    async def wait_for(self, topic, count, seconds=60):
        """Wait until a topic has `count` messages; return them."""
        async with asyncio.timeout(seconds):
            while True:
                found = await self.records(topic)
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.05)

    async def close(self):
        await self.pool.close()
        for process in reversed(self.processes):
            await asyncio.to_thread(process.end)
