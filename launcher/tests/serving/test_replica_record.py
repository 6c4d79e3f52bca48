"""The number of replicas is of the data: another one is refused, with what to do, and nothing is touched."""

import json
from pathlib import Path

import pytest

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.main import main
from gantry_launcher.planning.replicas import Replication
from gantry_launcher.serving.replica_record import record, replication_of, with_registers


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def single(folder: Path) -> DataDir:
    (folder / "broker-a" / "commitlog").mkdir(parents=True)
    return DataDir(folder)


@pytest.mark.parametrize(("asked", "replicas"), [(None, 1), (1, 1), (3, 3), (5, 5)])
def test_a_new_directory_gets_what_is_asked_for(tmp_path: Path, asked: int | None, replicas: int) -> None:
    assert replication_of(DataDir(tmp_path / "new"), asked) == Replication(replicas)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("asked", [None, 3])
def test_a_later_start_has_what_was_recorded(tmp_path: Path, asked: int | None) -> None:
    kept = with_registers(Replication(3), ["broker-a"])
    record(DataDir(tmp_path), kept)
    assert replication_of(DataDir(tmp_path), asked) == kept


def test_without_replication_nothing_is_written(tmp_path: Path) -> None:
    record(DataDir(tmp_path), Replication(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("asked", [1, 2, 5])
def test_another_number_than_the_directory_has_is_refused(tmp_path: Path, asked: int) -> None:
    data = DataDir(tmp_path)
    record(data, Replication(3))
    before = files(tmp_path)
    with pytest.raises(
        Refused, match=rf"has 3 replicas of each broker, not {asked}: start it without --replicas"
    ):
        replication_of(data, asked)
    assert files(tmp_path) == before


def test_replicas_are_refused_where_single_stores_are(tmp_path: Path) -> None:
    data = single(tmp_path)
    assert replication_of(data, None) == replication_of(data, 1) == Replication(1)
    with pytest.raises(Refused, match="has one store of each broker, not 3"):
        replication_of(data, 3)


def test_the_command_refuses_before_it_touches_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single(tmp_path)
    assert main(["up", "--free-ports", "--data", str(tmp_path), "--replicas", "3"]) == 2
    err = capsys.readouterr().err
    assert "has one store of each broker, not 3" in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["broker-a"]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "3", "\x00", "{}", '{"replicas": 3}', '{"replicas": 4, "withRegister": []}',
        '{"replicas": 1, "withRegister": []}', '{"replicas": true, "withRegister": []}',
        '{"replicas": 3, "withRegister": [], "names": []}', '{"replicas": 3, "withRegister": [], "names": {"broker-a": ["a"]}, "used": {"broker-a": ["a"]}}',
        '{"replicas": 3, "withRegister": [], "names": {"broker-a": ["a", "b"]}, "used": {"broker-a": ["a"]}}',
        '{"replicas": 3, "withRegister": [], "names": {"broker-a": ["a", "a"]}, "used": {"broker-a": ["a"]}}',
        '{"replicas": 3, "withRegister": "broker-a"}', '{"replicas": 3, "withRegister": [1]}',
    ],
)  # fmt: skip
def test_a_damaged_record_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    data = DataDir(tmp_path)
    data.replication.write_text(text)
    with pytest.raises(Refused, match=r"replication\.json cannot be used"):
        replication_of(data, None)
    assert data.replication.read_text() == text


def test_a_record_that_is_missing_beside_replicas_starts_no_empty_store(tmp_path: Path) -> None:
    (tmp_path / "broker-b" / "c" / "commitlog").mkdir(parents=True)
    for asked in (None, 1, 3):
        with pytest.raises(
            Refused, match=r"replication\.json is missing, and .*broker-b/c is one of several"
        ):
            replication_of(DataDir(tmp_path), asked)


def test_registers_are_added_to_those_that_were_made(tmp_path: Path) -> None:
    made = with_registers(Replication(3, frozenset({"broker-a"})), ["broker-b"])
    record(DataDir(tmp_path), made)
    said = json.loads(DataDir(tmp_path).replication.read_text())
    assert said == {"replicas": 3, "withRegister": ["broker-a", "broker-b"]}


def test_replicas_that_were_added_and_removed_are_kept_with_every_name_that_was_used(tmp_path: Path) -> None:
    grown, _ = with_registers(Replication(2), ["broker-a", "broker-b"]).with_added("broker-a")
    changed = grown.without("broker-a", "a")
    for replication in (grown, changed):
        record(DataDir(tmp_path), replication)
        assert replication_of(DataDir(tmp_path), None) == replication
    said = json.loads(DataDir(tmp_path).replication.read_text())
    assert (said["names"], said["used"]) == ({"broker-a": ["b", "c"]}, {"broker-a": ["a", "b", "c"]})
    assert replication_of(DataDir(tmp_path), 2) == changed


def test_a_number_is_refused_where_brokers_have_different_ones(tmp_path: Path) -> None:
    grown, _ = with_registers(Replication(2), ["broker-a", "broker-b"]).with_added("broker-a")
    record(DataDir(tmp_path), grown)
    with pytest.raises(
        Refused,
        match="has 3 replicas of broker-a, 2 replicas of broker-b, not 2: start it without --replicas",
    ):
        replication_of(DataDir(tmp_path), 2)
