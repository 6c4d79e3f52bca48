"""A nameserver process on free ports, and clients of it."""

import asyncio
import contextlib
import os
import signal
import sys
import urllib.request

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.pool import ConnectionPool

PATIENT_SECONDS = 60
"""What a step may take on a machine that has other things to do. Nothing here is a promise about speed."""
SOURCES = [path for path in sys.path if path.endswith("src")]


class Process:
    """A running nameserver."""

    def __init__(self, process, port, http_port, lines):
        self.process, self.port, self.http_port, self.lines = process, port, http_port, lines
        self.address = f"127.0.0.1:{port}"

    async def get(self, path, **headers):
        url = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", headers=headers)
        return await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=PATIENT_SECONDS).read())

    async def stop(self, number=signal.SIGTERM):
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), PATIENT_SECONDS)


async def launch(data_dir, *settings):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)}
    sets = [
        word
        for pair in ("port=0", "http_port=0", f"data_dir={data_dir}", *settings)
        for word in ("--set", pair)
    ]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "nameserver", *sets, env=environment, stderr=asyncio.subprocess.PIPE
    )


@contextlib.asynccontextmanager
async def running(data_dir, *settings):
    process = await launch(data_dir, *settings)
    lines = []
    try:
        async with asyncio.timeout(PATIENT_SECONDS):
            while not lines or " ready " not in lines[-1]:
                line = (await process.stderr.readline()).decode()
                assert line, f"ended before it was ready: {lines}"
                lines.append(line)
        message = dict(word.partition("=")[::2] for word in lines[-1].split() if "=" in word)
        ports = [int(message[name].rpartition(":")[2]) for name in ("remoting", "http")]
        node = Process(process, *ports, lines)
        yield node
        await node.stop()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()


@contextlib.asynccontextmanager
async def client_of(*nodes, timeout_seconds=PATIENT_SECONDS, introduce=None):
    pool = ConnectionPool(connect_seconds=PATIENT_SECONDS, introduce=introduce)
    try:
        yield NameserverClient(pool, [node.address for node in nodes], timeout_seconds)
    finally:
        await pool.close()
