"""The watch finds a process that has not answered for too long; it does not report one that answers, or any while the launcher was paused."""

import itertools
import selectors
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_launcher.planning.health import Check
from gantry_launcher.processes import watch as module
from gantry_launcher.processes.watch import ASK_SECONDS, STOOD_STILL_SECONDS, Silence, Watch


@given(gaps=st.lists(st.floats(0, 60), max_size=60))
def test_only_time_in_which_we_ran_counts_as_silence(gaps: list[float]) -> None:
    silence, now = Silence(), 1000.0
    silence.asked(now)
    for gap in gaps:
        now += gap
        silence.asked(now)
    assert silence.seconds == pytest.approx(sum(gap for gap in gaps if gap <= STOOD_STILL_SECONDS))


def test_an_answer_ends_the_silence_and_the_time_before_the_next_question_does_not_count() -> None:
    silence = Silence()
    silence.asked(0)
    silence.asked(3)
    silence.answered()
    silence.asked(6)
    assert silence.seconds == 0
    silence.asked(9)
    assert silence.seconds == 3


@given(steps=st.lists(st.tuples(st.floats(0, 2), st.booleans()), max_size=60))
def test_questions_are_three_seconds_apart_whether_they_are_answered_or_not(steps) -> None:
    silence, now, asked = Silence(), 1000.0, []
    for gap, is_answered in steps:
        now += gap
        if silence.is_due(now):
            silence.asked(now)
            asked.append(now)
        if is_answered:
            silence.answered()
    assert all(later - earlier >= ASK_SECONDS for earlier, later in itertools.pairwise(asked))


@pytest.fixture
def selector():
    with selectors.DefaultSelector() as selector:
        yield selector


def ask_for(watch: Watch, selector: selectors.BaseSelector, seconds: int) -> float:
    """Advance the watch's clock by `seconds`; between them only what has happened by then is read."""
    for now in range(seconds):
        silent = watch.silent_seconds(float(now))
        for key, _ in selector.select(0):
            key.data()
    return silent


def read_answers(selector: selectors.BaseSelector) -> None:
    """Wait until every question has its answer."""
    until = time.monotonic() + 60
    while selector.get_map():
        assert time.monotonic() < until, "no answer"
        for key, _ in selector.select(0.05):
            key.data()


def test_a_process_that_listens_and_says_nothing_is_silent(selector) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        watch = Watch(Check("http", "127.0.0.1", server.getsockname()[1]), selector)
        assert ask_for(watch, selector, 20) == 18
        watch.forget()
        assert not selector.get_map()
        assert watch.silent_seconds(1.0) == 0
        watch.forget()


@pytest.mark.parametrize("kind", ["http", "nats", "redis"])
def test_a_process_that_does_not_listen_is_silent(selector, kind) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check = Check(kind, "127.0.0.1", server.getsockname()[1])
    watch = Watch(check, selector)
    assert ask_for(watch, selector, 20) == 18
    assert not selector.get_map()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 503 No\r\n\r\n", b"nonsense", b""])
def test_any_answer_counts_also_that_the_connection_is_closed(selector, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(20):
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        watch = Watch(Check("http", "127.0.0.1", server.getsockname()[1]), selector)
        for now in range(20):
            assert watch.silent_seconds(float(now)) == 0
            read_answers(selector)
        server.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_comes_late_counts_for_all_questions(selector) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        watch = Watch(Check("http", "127.0.0.1", server.getsockname()[1]), selector)
        assert ask_for(watch, selector, 20) == 18
        connection, _ = server.accept()
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        read_answers(selector)
        connection.close()
        assert watch._silence.seconds == 0
        assert not watch._open


def test_without_a_descriptor_to_ask_with_nothing_is_known(selector, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_socket(*_arguments: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(module.socket, "socket", no_socket)
    watch = Watch(Check("http", "127.0.0.1", 1), selector)
    assert ask_for(watch, selector, 40) == 0
