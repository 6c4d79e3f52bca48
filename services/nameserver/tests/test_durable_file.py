import contextlib
import json
import os

import pytest

from gantry_chassis.machine.environment import machine
from nameserver.durable_file import DurableFile

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path):
    writer = machine().workers(1, "writer")
    yield DurableFile(tmp_path / "sub" / "kv.json", writer)
    writer.close()


def read(file):
    said = []
    return file.read(json.loads, said.append), said


async def test_written_content_is_read_and_the_previous_one_is_the_backup(file):
    assert read(file) == (None, [])
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    assert read(file) == (2, [])
    assert file.backup.read_bytes() == b"1"


async def test_changes_during_a_write_share_the_next_one(file):
    state, requested = [0], []

    def content():
        requested.append(state[0])
        return b"%d" % state[0]

    def change_to(value):
        state[0] = value
        return file.write(content)

    for write in [change_to(value) for value in range(20)]:
        await write
    assert requested == [0, 19]
    assert read(file) == (19, [])


async def test_a_change_completes_only_with_a_write_that_contains_it(file):
    state = [1]
    first = file.write(lambda: b"%d" % state[0])
    state[0] = 2
    second = file.write(lambda: b"%d" % state[0])
    await first
    assert not second.done()
    await second
    assert read(file) == (2, [])


async def test_writing_continues_after_a_failure(file):
    blocker = file.path.parent
    blocker.write_bytes(b"a file where the directory belongs")
    first, second = file.write(lambda: b"1"), file.write(lambda: b"2")
    with pytest.raises(OSError):
        await first
    blocker.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it may have begun before the file was deleted
        await second
    await file.write(lambda: b"3")
    assert read(file)[0] == 3


async def test_a_damaged_file_falls_back_to_its_backup_and_logs_it(file):
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    file.path.write_bytes(b"{cut")
    value, said = read(file)
    assert value == 1
    assert "trying its backup" in said[0]


async def test_a_missing_file_falls_back_to_its_backup(file):
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    file.path.unlink()
    assert read(file) == (1, [])


async def test_two_damaged_files_read_as_nothing_and_log_it(file):
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    file.path.write_bytes(b"{")
    file.backup.write_bytes(b"{")
    value, said = read(file)
    assert value is None
    assert len(said) == 2


@pytest.mark.parametrize("crash_at", range(1, 5))
async def test_a_crash_at_any_step_leaves_one_complete_content(file, crash_at, monkeypatch):
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    steps = []

    class Crash(Exception):
        pass

    def step(original):
        def wrapped(*args, **options):
            steps.append(original)
            if len(steps) == crash_at:
                raise Crash
            return original(*args, **options)

        return wrapped

    monkeypatch.setattr(os, "fsync", step(os.fsync))
    monkeypatch.setattr(type(file.path), "replace", step(type(file.path).replace))
    with pytest.raises(Crash):
        file.write_now(b"3")
    monkeypatch.undo()
    assert read(file)[0] in {2, 3}


async def test_a_failed_write_is_reported_to_its_caller(file):
    file.path.parent.parent.joinpath("sub").write_bytes(b"a file where the directory belongs")
    with pytest.raises(OSError):
        await file.write(lambda: b"1")
