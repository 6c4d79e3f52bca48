"""`status` and `down` reach the launcher of their directory, and no other."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gantry_launcher.commands import status
from gantry_launcher.errors import Refused
from gantry_launcher.processes import control


def test_a_question_is_answered_by_the_launcher_of_that_directory(tmp_path: Path) -> None:
    listener = control.listen(tmp_path)
    listener.setblocking(True)
    words: list[str] = []

    def serve() -> None:
        connection = control.accept(listener)
        assert connection is not None
        connection.setblocking(True)
        word = control.word(connection)
        assert word is not None
        words.append(word)
        control.answer(connection, {"ready": True})
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    answer = control.ask(tmp_path, "status")
    thread.join()
    listener.close()
    assert isinstance(answer, control.Answer)
    answer.connection.close()
    assert (answer.state, words) == ({"ready": True}, ["status"])
    assert answer.launcher_pid == os.getpid()


def test_a_caller_that_leaves_without_a_word_is_let_go(tmp_path: Path) -> None:
    listener = control.listen(tmp_path)
    listener.setblocking(True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.connect(control.address(tmp_path))
        connection = control.accept(listener)
        assert connection is not None
    assert control.word(connection) is None
    assert connection.fileno() == -1
    listener.close()


def test_without_a_launcher_there_is_no_answer(tmp_path: Path) -> None:
    assert control.ask(tmp_path, "status") is None


def test_one_directory_has_one_address_however_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert control.address(tmp_path / "link") == control.address(tmp_path / "data" / ".." / "data")
    assert control.address(tmp_path / "data") != control.address(tmp_path)


SQUATTER = """
import json, os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
os.setuid(int(sys.argv[3]))
listener.bind(sys.argv[1].replace("@", chr(0)))
listener.listen(5)
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    try:
        print(connection.recv(64), flush=True)
        connection.sendall(sys.argv[2].encode() + b"\\n")
    except OSError:
        pass  # the caller has disconnected
"""
NOBODY = 65534


@pytest.fixture
def squatted(tmp_path: Path):
    """A data directory whose socket name is held by another user's process, that process, and a process that its answer names."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    said = {"http": "127.0.0.1:1", "pids": {"launcher": [victim.pid]}, "processes": []}
    name = control.address(tmp_path).replace("\0", "@")
    squatter = subprocess.Popen(
        [sys.executable, "-c", SQUATTER, name, json.dumps(said), str(NOBODY)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert squatter.stdout is not None
    assert squatter.stdout.readline() == "listening\n"
    yield tmp_path, squatter, victim
    for process in (squatter, victim):
        process.kill()
        process.wait()
    squatter.stdout.close()


def test_another_user_in_the_launchers_place_is_not_believed(squatted) -> None:
    data, squatter, victim = squatted
    for word in ("status", "stop"):
        with pytest.raises(Refused, match=f"user {NOBODY} listens in the place of the launcher"):
            control.ask(data, word)
    with pytest.raises(Refused, match="is not believed"):
        status.status(data, as_json=True)
    with pytest.raises(Refused, match="is not believed"):
        status.down(data)
    assert victim.poll() is None
    squatter.kill()
    assert set(squatter.stdout.read().splitlines()) <= {"b''"}  # nothing was sent to it


def test_the_owner_of_the_directory_is_believed_by_root(squatted, tmp_path: Path) -> None:
    _, squatter, _ = squatted
    lock = status.DataDir(tmp_path).lock_file
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.chown(lock, NOBODY, NOBODY)
    answer = control.ask(tmp_path, "status")
    assert isinstance(answer, control.Answer)
    answer.connection.close()
    assert answer.launcher_pid == squatter.pid
