"""Progress never moves offsets in memory back, and a damaged file is replaced by the previous one."""

import asyncio
import os
from pathlib import Path
from time import sleep

import pytest

from gantrymq.consumer.shared import offsets as offsets_module
from gantrymq.consumer.shared.offsets import FileOffsets, OffsetTable, backup_of, load_offsets, save_offsets
from gantrymq.message import MessageQueue

A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def test_progress_never_goes_back_and_is_written_once() -> None:
    table = OffsetTable()
    table.advance(A, 5)
    table.advance(A, 3)
    assert table.take_changed() == {A: 5}
    assert table.take_changed() == {}
    table.put(A, 3)
    table.advance(B, 1)
    assert table.take_changed([A]) == {A: 3}
    table.not_written(A)
    table.forget(B)
    table.not_written(B)
    assert table.take_changed() == {A: 3}


def test_only_offsets_that_were_written_from_here_are_written_again() -> None:
    table = OffsetTable()
    table.load({A: 5})
    table.advance(B, 1)
    table.write_again([A])
    assert table.take_changed() == {B: 1}
    table.write_again([A, B])
    assert table.take_changed() == {B: 1}
    table.forget(B)
    table.write_again([B])
    assert table.take_changed() == {}


def test_a_file_has_the_java_clients_format(tmp_path: Path) -> None:
    path = tmp_path / "c" / "g" / "offsets.json"
    save_offsets(path, {A: 7})
    assert path.read_bytes() == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}'
    assert load_offsets(path) == {A: 7}


def test_a_damaged_or_missing_file_is_replaced_by_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    assert load_offsets(path) == {}
    save_offsets(path, {A: 1})
    save_offsets(path, {A: 2, B: 9})
    assert load_offsets(path) == {A: 2, B: 9}
    path.write_bytes(b'{"offsetTable":{{"brok')
    assert load_offsets(path) == {A: 1}
    path.unlink()
    assert load_offsets(path) == {A: 1}
    backup_of(path).write_bytes(b"\xff")
    assert load_offsets(path) == {}


@pytest.mark.anyio
async def test_concurrent_writes_are_serialized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = iter([0.2])
    sync = os.fsync

    def sync_slowly_once(number: int) -> None:
        sleep(next(slow, 0))
        sync(number)

    monkeypatch.setattr(offsets_module.os, "fsync", sync_slowly_once)
    offsets = FileOffsets(tmp_path / "offsets.json")
    offsets.table.advance(A, 4)
    timer = asyncio.ensure_future(offsets.write())
    await asyncio.sleep(0.05)
    offsets.table.advance(A, 9)
    await offsets.write([A], wait=True)
    assert load_offsets(offsets.path) == {A: 9}, "a close has written the last word"
    await timer
    assert load_offsets(offsets.path) == {A: 9}
    assert offsets.table.take_changed() == {}


@pytest.mark.anyio
async def test_a_failed_write_is_retried(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    offsets = FileOffsets(blocked / "offsets.json")
    offsets.table.advance(A, 4)
    await offsets.write()
    blocked.unlink()
    await offsets.write()
    assert load_offsets(offsets.path) == {A: 4}
