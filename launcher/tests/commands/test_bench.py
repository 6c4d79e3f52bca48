"""`bench` finds its programs by their own descriptions."""

import sys
from pathlib import Path

import pytest

from gantry_launcher.commands import bench
from gantry_launcher.errors import Refused
from gantry_launcher.main import main


def test_only_files_with_a_usage_line_are_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "speed"
    folder.mkdir()
    (folder / "sends.py").write_text('"""How many sends.\n\n    python bench/speed/sends.py\n"""\n')
    (folder / "part.py").write_text('"""Part of sends."""\n')
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    assert bench.programs() == {"sends": "How many sends."}
    assert "  sends          How many sends.\n" in bench.help_text(bench.programs())
    with pytest.raises(Refused, match="there are sends"):
        bench.bench(["other"])
    with pytest.raises(Refused, match=r"did you mean sends\?"):
        bench.bench(["send"])


def test_help_names_every_benchmark_and_runs_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    for name, words in bench.programs().items():
        assert name in out
        assert words in out


def test_options_go_to_the_one_program_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "record"
    folder, whole = tmp_path / "speed", tmp_path / bench.ALL
    folder.mkdir()
    whole.parent.mkdir()
    for name, usage in (("sends", ""), ("other", " --jars DIR")):
        code = f"import sys; open({str(record)!r}, 'a').write(' '.join(sys.argv[1:]) + ';')"
        (folder / f"{name}.py").write_text(
            f'"""How.\n\n    python bench/speed/{name}.py{usage}\n"""\n{code}\n'
        )
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    monkeypatch.setattr(bench, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(bench.install, "ensure", lambda *_: None)
    assert bench.bench(["other", "--jars", "DIR"]) == 0
    whole.write_text(f"import sys; open({str(record)!r}, 'a').write('all ' + ' '.join(sys.argv[1:]))\n")
    assert bench.bench(["--out", "DIR"]) == 0, "without a name, one program runs all"
    assert record.read_text() == "--jars DIR;all --out DIR"
    with pytest.raises(Refused, match="--jars belongs to one benchmark"):
        bench.bench(["sends", "other", "--jars", "DIR"])
