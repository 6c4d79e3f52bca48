"""The dump tool reads anything and changes nothing."""

import runpy
import sys

import pytest

from broker_store.log.dump import main
from broker_store.log.files.real_files import RealFiles


@pytest.fixture
def directory(mini, tmp_path):
    store = mini(RealFiles(), directory=str(tmp_path)).open()
    for number in range(50):
        store.send(b"body %d" % number)
    store.close()
    return tmp_path


def dump(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    return status, capsys.readouterr().out.splitlines()


def test_the_summary_names_every_file_and_its_end(capsys, directory):
    status, lines = dump(capsys, directory)
    assert status == 0
    assert lines[0].startswith("checkpoint  log 1700000050000 ms")
    assert lines[1] == "last stop   clean, or no longer in use"
    segments = [line for line in lines if line.startswith("segment")]
    assert "(blank)" in segments[0]
    assert "(zero)" in segments[-1]
    counts = [int(line.split(":")[1].split()[0]) for line in segments]
    assert sum(counts) == 50 + len(segments)
    assert any(line.startswith("index file") and "31 entries" in line for line in lines)


def test_records_are_shown_from_a_position_on(capsys, directory):
    _, lines = dump(capsys, directory, "--records", 3)
    records = [line for line in lines if " stored " in line]
    assert len(records) == 3
    assert records[1].split()[2] == "T/0@0"
    position = records[2].split()[0]
    _, lines = dump(capsys, directory, "--from", position, "--records", 1)
    assert records[2] in lines
    _, lines = dump(capsys, directory, "--from", 4096)
    assert not any("0" * 20 in line for line in lines if line.startswith("segment"))


def test_the_last_units_of_a_queue_are_shown(capsys, directory):
    _, lines = dump(capsys, directory, "--queue", "T/0")
    assert lines[0] == f"queue file  {0:020d}: 16 units from offset 0"
    assert any(line.startswith("  offset 49: position ") for line in lines)


def test_damage_and_leftovers_are_named(capsys, directory):
    segment = directory / "commitlog" / f"{0:020d}"
    content = bytearray(segment.read_bytes())
    content[101 + 89] ^= 1  # the body of the record after the preamble
    segment.write_bytes(content)
    (directory / "abort").write_bytes(b"1")
    (directory / "checkpoint").write_bytes(b"short")
    (directory / "consumequeue" / "T" / "0" / "note").write_bytes(b"")
    (directory / "commitlog" / "note").write_bytes(b"")
    _, lines = dump(capsys, directory)
    assert lines[0].startswith("checkpoint  unreadable")
    assert lines[1].startswith("last stop   unclean")
    assert "CRC" in lines[2]
    assert dump(capsys, directory, "--queue", "T/0")[0] == 0


def test_a_large_record_at_a_chunk_border_and_a_cut_one(capsys, directory, monkeypatch):
    monkeypatch.setattr("broker_store.log.file_walk.CHUNK_BYTES", 50)
    _, lines = dump(capsys, directory)
    counts = [int(line.split(":")[1].split()[0]) for line in lines if line.startswith("segment")]
    assert sum(counts) == 50 + len(counts)
    last = max((directory / "commitlog").iterdir())
    body = last.read_bytes().rindex(b"body ")
    last.write_bytes(last.read_bytes()[: body + 3])
    _, lines = dump(capsys, directory)
    assert any("cut short" in line for line in lines)
    monkeypatch.setattr("broker_store.log.file_walk.CHUNK_BYTES", 4 << 20)
    _, lines = dump(capsys, directory)
    assert any("(bad" in line or "(more" in line for line in lines)


def test_a_file_that_ends_with_a_record_or_in_an_impossible_one(capsys, tmp_path, build_at):
    (tmp_path / "commitlog").mkdir()
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.write_bytes(build_at("T", 0, 0, 0, b"x"))
    _, lines = dump(capsys, tmp_path)
    assert any("1 records, 93 bytes, ends at 93 (more)" in line for line in lines)
    path.write_bytes(b"\0\0\0\5\xda\xa3\x20\xa7")
    _, lines = dump(capsys, tmp_path)
    assert any("0 records, 0 bytes, ends at 0 (bad, it is cut short)" in line for line in lines)


def test_it_runs_as_a_module(capsys, directory, monkeypatch):
    monkeypatch.setattr("sys.argv", ["dump", str(directory), "--records", "1"])
    monkeypatch.delitem(sys.modules, "broker_store.log.dump")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("broker_store.log.dump", run_name="__main__")
    assert ended.value.code == 0
    assert " stored " in capsys.readouterr().out


def test_a_directory_that_is_no_store_is_refused(capsys, tmp_path):
    assert main([str(tmp_path)]) == 2
    assert "commitlog" in capsys.readouterr().err
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "short").write_bytes(b"x")
    assert main([str(tmp_path)]) == 0
