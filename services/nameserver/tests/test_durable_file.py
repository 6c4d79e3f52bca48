import contextlib
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from nameserver.durable_file import DurableFile

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path):
    with ThreadPoolExecutor(1) as writer:
        yield DurableFile(tmp_path / "sub" / "kv.json", writer)


def read(file):
    said = []
    return file.read(json.loads, said.append), said


async def test_what_was_written_is_read_and_the_one_before_is_the_backup(file):
    assert read(file) == (None, [])
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    assert read(file) == (2, [])
    assert file.backup.read_bytes() == b"1"


async def test_changes_made_beside_a_write_share_the_next_one(file):
    state, asked = [0], []

    def content():
        asked.append(state[0])
        return b"%d" % state[0]

    def change_to(value):
        state[0] = value
        return file.write(content)

    for write in [change_to(value) for value in range(20)]:
        await write
    assert asked == [0, 19]
    assert read(file) == (19, [])


async def test_a_change_is_answered_only_when_a_write_that_has_it_is_done(file):
    state = [1]
    first = file.write(lambda: b"%d" % state[0])
    state[0] = 2
    second = file.write(lambda: b"%d" % state[0])
    await first
    assert not second.done()
    await second
    assert read(file) == (2, [])


async def test_the_next_write_goes_on_after_one_that_failed(file):
    blocker = file.path.parent
    blocker.write_bytes(b"a file where the directory belongs")
    first, second = file.write(lambda: b"1"), file.write(lambda: b"2")
    with pytest.raises(OSError):
        await first
    blocker.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it may have begun before the file was gone
        await second
    await file.write(lambda: b"3")
    assert read(file)[0] == 3


async def test_a_damaged_file_gives_its_backup_and_says_so(file):
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    file.path.write_bytes(b"{cut")
    value, said = read(file)
    assert value == 1
    assert "trying its backup" in said[0]


async def test_a_missing_file_gives_its_backup(file):
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    file.path.unlink()
    assert read(file) == (1, [])


async def test_two_damaged_files_give_nothing_and_say_so(file):
    await file.write(lambda: b"1")
    await file.write(lambda: b"2")
    file.path.write_bytes(b"{")
    file.backup.write_bytes(b"{")
    value, said = read(file)
    assert value is None
    assert len(said) == 2


@pytest.mark.parametrize("crash_at", range(1, 5))
async def test_a_crash_between_any_two_steps_keeps_one_whole_content(file, crash_at, monkeypatch):
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


async def test_a_failed_write_is_told_to_who_asked(file):
    file.path.parent.parent.joinpath("sub").write_bytes(b"a file where the directory belongs")
    with pytest.raises(OSError):
        await file.write(lambda: b"1")
