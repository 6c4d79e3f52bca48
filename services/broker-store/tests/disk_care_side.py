"""Disk care over an in-memory store, and a way to run one of its loops."""

import asyncio
import contextlib

from sending_side import SendingSide

from broker_store.log.snapshot import Snapshots
from broker_store.process.disk_care import DiskCare
from gantry_chassis.machine.environment import machine

MIB = 1024 * 1024


def care_of(side: SendingSide) -> DiskCare:
    snapshots = Snapshots(side.files, "/store", machine().secret_bytes)
    return DiskCare(side.store, snapshots, side.thread, None)


@contextlib.asynccontextmanager
async def running(loop):
    task = asyncio.ensure_future(loop())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
