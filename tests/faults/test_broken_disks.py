"""Real file systems that fill up or break under a store. On request and as root: `./gantry test -m soak tests/faults`.

Needs mkfs.ext4 and loop devices. Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..crash.history import History  # noqa: TID252
from ..crash.power import PoweredDisk  # noqa: TID252
from ..crash.store_process import StoreProcess  # noqa: TID252
from ..crash.traffic import Traffic, read_everything  # noqa: TID252
from .client import Client
from .conftest import SETTINGS, NewStore
from .filled import commit
from .test_damaged_log import metric
from .test_disk_faults import DISK_FULL, REFUSED, STOPPED
from .test_parts_die import until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
MIB = 1 << 20
TOPIC = "broken"
QUEUES = 2


def run(*words: str) -> None:
    subprocess.run(words, check=True)


@contextlib.contextmanager
def mounted(image: Path, mount: Path, size: int) -> Iterator[Path]:
    """An ext4 in a sparse image file."""
    with image.open("wb") as file:
        file.truncate(size)
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-J", "size=4", str(image))
    mount.mkdir(exist_ok=True)
    run("mount", "-o", "loop", str(image), str(mount))
    try:
        yield mount
    finally:
        run("umount", str(mount))


async def judge(store: StoreProcess, traffic: Traffic) -> None:
    await traffic.stop()
    await read_everything(store.port, TOPIC, QUEUES, traffic.history)
    verdict = traffic.history.verdict()
    assert verdict.holds, verdict
    assert verdict.acknowledged > 100


def fill_up(path: Path, leave_bytes: int) -> None:
    """Use all free space except this much; other programs use some at the same time."""
    with path.open("wb") as file:
        for _ in range(100):
            stat = os.statvfs(path.parent)
            size = stat.f_bavail * stat.f_frsize - leave_bytes
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, max(size, stat.f_frsize))
            if size <= stat.f_frsize:
                break


@pytest.mark.parametrize("minimum", [0, 24 * MIB], ids=["to the last byte", "with a minimum"])
def test_a_file_system_that_fills_up_under_load_gets_space_again(
    tmp_path: Path, new_store: NewStore, minimum: int
) -> None:
    with mounted(tmp_path / "disk.img", tmp_path / "disk", 256 * MIB) as disk:
        store = new_store(
            disk / "store", free_bytes_min=str(minimum), ballast_bytes=str(4 * MIB),
            queue_file_units="2000", index_slots="10000", index_entries="40000",
        )  # fmt: skip
        store.start()
        try:
            asyncio.run(fill_and_heal(store, disk, minimum))
        finally:
            store.kill()


async def fill_and_heal(store: StoreProcess, disk: Path, minimum: int) -> None:
    traffic = Traffic(store.port, TOPIC, QUEUES, History())
    traffic.start("full")
    await asyncio.sleep(1)
    for round_number in range(2):
        filler = disk / "filler"
        fill_up(filler, minimum + MIB)
        await asyncio.to_thread(expect_full, store, disk, round_number)
        filler.unlink()
        with Client(store.port) as client:
            await asyncio.to_thread(until, lambda: client.try_send(b"probe", "probe").code == 0)
        await asyncio.sleep(1)
    await judge(store, traffic)
    await asyncio.to_thread(store.kill)
    await asyncio.to_thread(store.start)
    await read_everything(store.port, TOPIC, QUEUES, traffic.history)
    assert traffic.history.verdict().holds


def expect_full(store: StoreProcess, disk: Path, round_number: int) -> None:
    with Client(store.port) as client:
        stop_at = 60 * MIB // 50_000
        for _ in range(stop_at):  # the load alone would need long for the rest
            if client.try_send(b"x" * 50_000, "ballast").code != 0:
                break
        until(lambda: metric(store, "gantry_store_log_state") == DISK_FULL)
        answer = client.try_send(b"x", "ballast")
        assert (answer.code, answer.ext.get("gantryCode")) == (REFUSED, "DISK_FULL")
        until(lambda: not (disk / "store" / "gantry" / "reserve").exists())
        assert client.pull(0, TOPIC).code == 0, "reads continue"
        commit_to(client, round_number + 1)


def commit_to(client: Client, offset: int) -> None:
    client.pull(0, "faults")  # creates the group
    client.try_send(b"x")
    commit(client, offset)


def test_a_device_that_fails_a_flush_stops_the_store(tmp_path: Path, new_store: NewStore) -> None:
    """The image is on a full tmpfs: writes reach the page cache, the flush fails with EIO."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(shelf))
    try:
        with mounted(shelf / "disk.img", tmp_path / "disk", 512 * MIB) as disk:
            write_page_by_page(shelf / "disk.img")
            settings = SETTINGS | {"segment_bytes": str(64 * MIB), "free_bytes_min": "0"}
            store = new_store(disk / "store", **settings, index_slots="10000", index_entries="40000")
            store.start()
            try:
                asyncio.run(break_and_mend(store, shelf, disk))
            finally:
                store.kill()
    finally:
        run("umount", str(shelf))


async def break_and_mend(store: StoreProcess, shelf: Path, disk: Path) -> None:
    traffic = Traffic(store.port, TOPIC, QUEUES, History())
    traffic.start("eio")
    await asyncio.sleep(1)
    filler = shelf / "filler"
    fill_up(filler, 0)
    acknowledged = await asyncio.to_thread(expect_stopped, store)
    filler.unlink()
    assert await asyncio.to_thread(expect_stopped, store) == {}, "a repaired disk does not restart the store"
    await asyncio.to_thread(store.kill)
    repair(shelf / "disk.img", disk)
    await asyncio.to_thread(store.start)
    await judge(store, traffic)
    with Client(store.port) as client:
        assert acknowledged.items() <= client.read_all("ballast").items()


def write_page_by_page(image: Path) -> None:
    """A loop device reports a partial write of its file as complete; a single page cannot be written partially."""
    found = subprocess.run(
        ["losetup", "-n", "-O", "NAME", "-j", str(image)], check=True, capture_output=True, text=True
    )
    device = Path(found.stdout.split()[0]).name
    Path("/sys/block", device, "queue", "max_sectors_kb").write_text("4")


def repair(image: Path, disk: Path) -> None:
    run("umount", str(disk))
    subprocess.run(["e2fsck", "-y", str(image)], check=False, stdout=subprocess.DEVNULL)
    run("mount", "-o", "loop", str(image), str(disk))


def expect_stopped(store: StoreProcess) -> dict[int, bytes]:
    """Send until the store reports that it stopped; return the messages acknowledged before."""
    acknowledged: dict[int, bytes] = {}
    with Client(store.port) as client:
        for number in range(1000):
            body = b"%d:" % number + b"x" * 100_000
            answer = client.try_send(body, "ballast")
            if answer.ext.get("gantryCode") == "STORE_STOPPED":
                break
            if answer.code == 0:
                acknowledged[int(answer.ext["queueOffset"])] = body
        assert answer.ext.get("gantryCode") == "STORE_STOPPED", (answer.code, answer.remark)
        assert client.pull(0, TOPIC).code == 0, "reads continue"
    assert metric(store, "gantry_store_log_state") == STOPPED
    assert store.get("/health/ready")[0] == 503
    return acknowledged


def test_a_lost_file_system_stops_the_store_and_loses_nothing(tmp_path: Path, new_store: NewStore) -> None:
    disk = PoweredDisk(tmp_path / "disk.img", tmp_path / "disk")
    disk.create()
    try:
        store = new_store(disk.mount / "store", segment_bytes=str(16 * MIB))
        store.start()
        asyncio.run(shut_down_under(store, disk))
    finally:
        store.kill()
        disk.unmount()


async def shut_down_under(store: StoreProcess, disk: PoweredDisk) -> None:
    traffic = Traffic(store.port, TOPIC, QUEUES, History())
    traffic.start("gone")
    await asyncio.sleep(1)
    disk.cut()
    await asyncio.to_thread(until, lambda: metric(store, "gantry_store_log_state") == STOPPED)
    await asyncio.to_thread(store.stop)
    disk.unmount()
    disk.power_on()
    await asyncio.to_thread(store.start)
    await judge(store, traffic)
