"""The log and the configuration, torn or flipped: the store reports a hole and skips it, and everything else is readable."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gantry_wire.headers.messages import PullReplyHeader

from ..crash.store_process import StoreProcess  # noqa: TID252
from .client import FOUND, NO_MATCHED, Client
from .conftest import SETTINGS, NewStore
from .filled import COMMITTED_OFFSET, PER_QUEUE, TOPIC, Filled, check_whole, commit, committed, fill

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]
OLD = 100
"""An offset whose record is in the first of two segments."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A filled directory of a killed store: checkpoints are 600 s apart, so the next start walks the whole log."""
    store = StoreProcess(
        tmp_path_factory.mktemp("log") / "store", settings=SETTINGS | {"checkpoint_seconds": "600"}
    )
    store.start()
    try:
        filled = fill(store)
    finally:
        store.kill()
    assert len(filled.segments()) > 1
    return filled


def flip(filled: Filled, body: bytes, back_bytes: int) -> None:
    """Flip one byte of the record with this body, `back_bytes` before the body."""
    segment, at = filled.find(body)
    data = bytearray(segment.read_bytes())
    data[at - back_bytes] ^= 0x55
    segment.write_bytes(data)


def metric(store: StoreProcess, name: str) -> float:
    for line in store.get("/metrics")[1].decode().splitlines():
        if line.startswith(name + " "):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no metric {name}")


def log_of(store: StoreProcess) -> str:
    assert store.log is not None
    return store.log.read_text()


FLIPS = {"body": -40, "body size": 1, "magic": 88 - 4 + 3, "record size": 88 - 1, "position": 88 - 28 - 7}
"""Bytes before the body, by field: docs/log-format.md."""


@pytest.mark.parametrize("part", FLIPS)
def test_a_flipped_byte_in_an_old_segment_is_a_reported_hole_and_nothing_else_is_lost(
    killed: Filled, new_store: NewStore, tmp_path: Path, part: str
) -> None:
    filled = killed.copy(tmp_path / "store")
    flip(filled, filled.messages[0][OLD], FLIPS[part])
    store = new_store()
    store.start()
    check_whole(store, filled, without=frozenset({(0, OLD)}))
    assert "damaged bytes in the log are skipped" in log_of(store)
    with Client(store.port) as client:
        answer = client.pull(OLD, TOPIC)
        assert answer.code in (FOUND, NO_MATCHED)
        assert filled.messages[0][OLD][:20] not in answer.body
    assert metric(store, "gantry_store_recovery_holes") >= 1


def test_a_byte_damaged_after_a_clean_stop_is_detected_at_its_first_read(
    killed: Filled, new_store: NewStore, tmp_path: Path
) -> None:
    filled = killed.copy(tmp_path / "store")
    settled = new_store()
    settled.start()
    assert settled.stop() == 0
    flip(filled, filled.messages[1][OLD], -40)
    store = new_store()
    store.start()
    with Client(store.port) as client:
        assert client.read_all(TOPIC, 1) == {n: body for n, body in filled.messages[1].items() if n != OLD}
        assert client.read_all(TOPIC, 0) == filled.messages[0]
        assert metric(store, "gantry_store_damaged_records_total") >= 1
        assert "damaged records are left out of a reply" in log_of(store)


def test_a_pull_inside_a_hole_gets_the_offset_after_it(
    killed: Filled, new_store: NewStore, tmp_path: Path
) -> None:
    filled = killed.copy(tmp_path / "store")
    last = PER_QUEUE - 1
    flip(filled, filled.messages[1][last], -40)
    store = new_store()
    store.start()
    with Client(store.port) as client:
        answer = client.pull(last, TOPIC, 1)
        assert (answer.code, answer.read(PullReplyHeader).next_begin_offset) == (NO_MATCHED, last + 1)
        assert client.send(b"next", TOPIC, 1) == last + 1
        assert client.pull(last, TOPIC, 1).code == FOUND


@pytest.mark.parametrize("torn_bytes", [4, 88, 2000])
def test_a_torn_tail_is_cut_and_reported_and_offsets_continue(
    killed: Filled, new_store: NewStore, tmp_path: Path, torn_bytes: int
) -> None:
    filled = killed.copy(tmp_path / "store")
    end = filled.confirm_offset()
    segment = max(path for path in filled.segments() if int(path.name) <= end)
    source, at = filled.find(filled.messages[0][OLD])
    record = bytearray(source.read_bytes()[at - 88 : at + len(filled.messages[0][OLD])])
    record[28:36] = end.to_bytes(8, "big")
    with segment.open("r+b") as file:
        file.seek(end - int(segment.name))
        file.write(record[:torn_bytes])
    store = new_store()
    store.start()
    check_whole(store, filled)
    assert "unconfirmed tail of the log cut" in log_of(store)


def test_repeated_kill_9_during_recovery_loses_nothing(
    killed: Filled, new_store: NewStore, tmp_path: Path
) -> None:
    filled = killed.copy(tmp_path / "store")
    store = new_store()
    took = store.start()
    store.kill()
    for number in range(6):
        store.start(wait=False)
        time.sleep(took * (0.4 + 0.1 * number))
        store.kill()
    store.start()
    check_whole(store, filled)


def test_a_damaged_configuration_is_read_from_its_backup_and_reported(
    killed: Filled, new_store: NewStore, tmp_path: Path
) -> None:
    filled = killed.copy(tmp_path / "store")
    for run in (1, 2):  # each writes another version of the files
        before = new_store()
        before.start()
        with Client(before.port) as client:
            client.send(b"x", f"another-topic-{run}")
            commit(client, COMMITTED_OFFSET + run)
        assert before.stop() == 0
    config = filled.store_dir / "config"
    (config / "topics.json").write_bytes(b'{"topicConfigTable":{"fau')
    (config / "consumerOffset.json").write_bytes(b"")
    store = new_store()
    store.start()
    for event in ("configuration file is damaged", "configuration read from its backup"):
        lines = [line for line in log_of(store).splitlines() if event in line]
        assert len(lines) == 2
        assert all(any(name in line for line in lines) for name in ("topics.json", "consumerOffset.json"))
    check_whole(store, filled)
    with Client(store.port) as client:
        assert committed(client) == COMMITTED_OFFSET + 2


def test_messages_stay_readable_with_a_damaged_configuration_and_backup(
    killed: Filled, new_store: NewStore, tmp_path: Path
) -> None:
    filled = killed.copy(tmp_path / "store")
    for path in (filled.store_dir / "config").iterdir():
        path.write_bytes(b"[" * 200_000)
    store = new_store()
    store.start()
    check_whole(store, filled)


def test_a_second_store_on_the_directory_is_refused_with_a_message_and_the_first_keeps_serving(
    new_store: NewStore,
) -> None:
    first = new_store()
    first.start()
    with Client(first.port) as client:
        assert client.send(b"one") == 0
        second = new_store()
        with pytest.raises(RuntimeError, match="in use"):
            second.start()
        assert second.stop() == 2
        assert client.send(b"two") == 1
        assert client.read_all() == {0: b"one", 1: b"two"}
