"""Idempotency keys on the disk: a start misses those that are lost within the window, and no others."""

import errno
from contextlib import suppress

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.checkpoint.checkpoint import Checkpoint
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from broker_store.opening.queue_note import Reason

pytestmark = pytest.mark.anyio
START_S = 1_700_000_000.0
KEYS = "/store/gantry/keys"


async def stop(side):
    side.flush()
    await side.sending.checkpoints.close()
    side.log.close()


@pytest.mark.parametrize("later_s", [5, 10, 11, 100])
async def test_keys_that_left_the_window_are_not_missed(later_s):
    files, window = SimulatedFiles(), {"idempotency_window_seconds": 10}
    for number in range(4):
        side = SendingSide(files, START_S + number * later_s, **window)
        assert side.opening.rebuild_reason is None
        properties = {"UNIQ_KEY": f"K{number}", **({"__GANTRY_KEY": "k1"} if number == 0 else {})}
        side.send(ScriptedPeer(), body=b"x", properties=properties)
        await stop(side)


async def test_keys_that_are_lost_within_the_window_are_missed():
    side = SendingSide()
    side.send(ScriptedPeer(), body=b"x", properties={"UNIQ_KEY": "K", "__GANTRY_KEY": "k1"})
    side.flush()
    await side.sending.checkpoints.take()
    side.files.remove_dir(KEYS)
    again = side.reopen()
    assert again.opening.rebuild_reason is Reason.KEYS
    assert len(again.store.window) == 1


def keyed(key):
    return {"UNIQ_KEY": key, "__GANTRY_KEY": key}


def change_chunk(files, path):
    files.flip(path, 81, 1)


def cut_last_chunk(files, path):
    files.open(path).truncate(files.size(path) - len(files.read_bytes(path)) // 2)


@pytest.mark.parametrize("harm", [change_chunk, cut_last_chunk, SimulatedFiles.remove])
async def test_keys_that_an_older_file_lost_are_missed_though_a_newer_file_is_whole(harm):
    side = SendingSide()
    for key in ("k1", "k2"):
        side.send(ScriptedPeer(), body=b"x", properties=keyed(key))
        side.flush()
        await side.sending.checkpoints.take()
    (older,) = side.files.listdir(KEYS)
    side = side.reopen()  # each run has its own file
    side.send(ScriptedPeer(), body=b"x", properties=keyed("k3"))
    side.flush()
    await side.sending.checkpoints.take()
    harm(side.files, f"{KEYS}/{older}")
    again = side.reopen()
    assert again.opening.rebuild_reason is Reason.KEYS
    assert len(again.store.window) == 3


async def test_keys_that_only_the_page_cache_held_at_a_start_are_not_missed_after_a_later_power_cut():
    side = SendingSide()
    for key in ("k1", "k2"):
        if key == "k2":
            side.files.faults.append(Fault("sync", errno.EIO, KEYS))
        side.send(ScriptedPeer(), body=b"x", properties=keyed(key))
        side.flush()
        with suppress(OSError):
            await side.sending.checkpoints.take()
    again = side.reopen()
    await again.sending.checkpoints.take()
    for left in again.files.crash_states(8):
        last = SendingSide(left, START_S + 10)
        assert last.opening.rebuild_reason is None
        assert len(last.store.window) == 2


async def test_a_file_of_keys_that_the_checkpoint_removed_is_not_missed_after_a_crash_before_its_end(
    monkeypatch,
):
    files, window = SimulatedFiles(), {"idempotency_window_seconds": 10}
    side = SendingSide(files, START_S, **window)
    side.send(ScriptedPeer(), body=b"x", properties=keyed("k1"))
    side.flush()
    await side.sending.checkpoints.take()
    side = SendingSide(side.files, START_S + 9, **window)
    side.send(ScriptedPeer(), body=b"x", properties=keyed("k2"))
    side.flush()
    await side.sending.checkpoints.take()
    before = side.files.listdir(KEYS)
    side = SendingSide(side.files, START_S + 15, **window)
    side.send(ScriptedPeer(), body=b"x", properties=keyed("k3"))
    side.flush()

    def crash(*_):
        raise OSError(errno.EIO, "crash")

    monkeypatch.setattr(Checkpoint, "write", crash)
    with pytest.raises(OSError, match="crash"):
        await side.sending.checkpoints.take()
    assert before[0] not in side.files.listdir(KEYS)
    again = SendingSide(side.files, START_S + 15, **window)
    assert again.opening.rebuild_reason is None
    assert len(again.store.window) == 2
