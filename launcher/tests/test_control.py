"""`status` and `down` reach the launcher of their directory, and no other."""

import socket
import threading
from pathlib import Path

from gantry_launcher import control


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
    assert answer is not None
    answer[1].close()
    assert (answer[0], words) == ({"ready": True}, ["status"])


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
