"""A topic deleted in the loop while a checkpoint's thread writes its files: no disk error, whichever step it meets."""

import asyncio
import threading
from pathlib import Path

import pytest
from sending_side import DIRECTORY, ScriptedPeer, SendingSide

from broker_store.log.files.real_files import RealFiles
from broker_store.log.files.simulated_files import SimulatedFiles

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
SHORT = f"{DIRECTORY}/consumequeue/short/"


class MeetingFiles(SimulatedFiles):
    """A disk that runs a callback of the loop in the middle of a thread's operation on a directory."""

    meet = ""
    between = staticmethod(lambda: None)

    def _meet(self, operation, path):
        if self.meet != operation or not path.startswith(SHORT):
            return
        if threading.current_thread() is threading.main_thread():
            return
        self.meet = ""
        done = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (self.between(), done.set()))
        assert done.wait(5)

    def make_dirs(self, path):
        super().make_dirs(path)
        self._meet("make_dirs", path)

    def sync_dir(self, path):
        self._meet("sync_dir", path)
        if path.startswith(SHORT):
            self._require_directory(f"{path}/any")
        super().sync_dir(path)


@pytest.mark.parametrize("operation", ["make_dirs", "sync_dir"])
async def test_a_topic_deleted_during_the_threads_work_does_not_end_the_checkpoints(operation):
    files = MeetingFiles()
    files.loop = asyncio.get_running_loop()
    side, peer = SendingSide(files), ScriptedPeer()
    side.topics.ensure("short", 2)
    side.topics.ensure("orders", 2)
    for topic in ("short", "orders"):
        side.send(peer, topic)
    side.flush()

    def delete():
        side.ask(peer, 215, {"topic": "short"})
        side.flush()

    files.meet, files.between = operation, delete
    await side.sending.checkpoints.take()
    assert side.queues.find("short", 0) is None
    side.send(peer, "orders")
    side.flush()
    await side.sending.checkpoints.take()
    again = side.reopen()
    assert len(again.records("orders")) == 2
    assert not again.records("short")


def test_a_directory_in_which_a_thread_makes_a_file_meanwhile_is_removed(tmp_path, monkeypatch):
    directory = tmp_path / "short"
    directory.mkdir()
    rmdir, made = Path.rmdir, []

    def late(path):
        if not made:
            made.append((path / "0").write_bytes(b""))
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", late)
    RealFiles().remove_dir(str(directory))
    assert not directory.exists()
