"""Shell completion of `./gantry`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher import install, options
from gantry_launcher.commands import bench
from gantry_launcher.commands.completing import (
    CLIENT_ACCESS,
    OWN_ACCESS,
    OWN_COMMANDS,
    bench_options,
    complete,
)
from gantry_launcher.commands.spark import MODULES
from gantry_launcher.layout import ROOT, SOURCES
from gantry_launcher.main import COMMANDS, main
from gantry_launcher.usage import ACCESS_WORDS, CLIENT_COMMANDS, USAGE
from gantrymq.cli.commands.completion import SCRIPTS


def bash(*words: str) -> list[str]:
    """The completions that bash gets for the last, unfinished word."""
    asked = {"_GANTRY_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(("./gantry", *words)), "COMP_CWORD": str(len(words))}  # fmt: skip
    answer = complete(asked)
    assert answer is not None
    assert answer[1] == 0
    return answer[0].split()


def other(shell: str, line: str, **more: str) -> tuple[str, int]:
    answer = complete({"_GANTRY_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line, **more})
    assert answer is not None
    return answer


def test_the_first_word_is_any_word_of_both() -> None:
    assert bash("") == [*COMMANDS, *CLIENT_COMMANDS]
    assert bash("st") == ["status"]
    assert bash("to") == ["topic"]
    assert bash("--h") == ["--help"]
    assert bash("'up") == ["up"]
    assert bash("sned", "") == []


def test_options_are_offered_once_and_values_after_them() -> None:
    assert set(bash("up", "")) == set(OWN_COMMANDS["up"].options)
    assert bash("up", "--f") == ["--free-ports", "--flush"]
    assert bash("up", "--free-ports", "--f") == ["--flush"]
    assert bash("up", "--set", "a.b=c", "--se") == ["--set"]
    assert bash("up", "--flush", "") == bash("up", "--flush", "=") == ["sync", "async"]
    assert bash("up", "--flush", "=", "s") == ["sync"]
    assert other("zsh", "./gantry up --flush=s") == ("_arguments '*: :((\"--flush=sync\"))'\n", 0)
    assert bash("export", "--to", "p") == ["parquet"]


def test_where_a_file_may_stand_nothing_is_offered() -> None:
    assert bash("up", "--data", "") == bash("test", "") == bash("check", "") == []
    assert bash("test", "--h") == ["--help"]
    assert other("zsh", "./gantry up --data ") == ("_files\n", 0)
    assert other("fish", "./gantry test ", _TYPER_COMPLETE_FISH_ACTION="is-args") == ("", 1)


def test_each_shell_gets_its_own_format() -> None:
    assert other("zsh", "./gantry do") == (
        '_arguments \'*: :(("down":"stop it and wait"\n"doctor"))\'\n', 0,
    )  # fmt: skip
    assert other("fish", "./gantry do", _TYPER_COMPLETE_FISH_ACTION="get-args") == (
        "down\tstop it and wait\ndoctor\n", 0,
    )  # fmt: skip
    assert other("fish", "./gantry do", _TYPER_COMPLETE_FISH_ACTION="is-args") == ("", 0)


PARSE: dict[str, Callable[[], object]] = {
    "up": lambda: options.parse_up([]),
    "restart": lambda: options.parse_restart(["--rolling"]),
    "replicas": lambda: (
        options.parse_replicas(["add", "broker-a"]),
        options.parse_rebuild(["broker-a"]),
    ),
}


def test_after_replicas_stand_its_words() -> None:
    assert bash("replicas", "") == ["add", "remove", "rebuild-register"]
    assert bash("replicas", "add", "--t") == ["--timeout"]


@pytest.mark.parametrize("word", ["up", "status", "down", "init", "off", "restart", "replicas"])
def test_the_options_are_those_that_the_launcher_takes(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, Any] = {}
    add = options.Parser.add_argument

    def note(parser: options.Parser, name: str, **more: Any) -> Any:
        taken[name] = more
        return add(parser, name, **more)

    monkeypatch.setattr(options.Parser, "add_argument", note)
    monkeypatch.setattr(options.argparse._MutuallyExclusiveGroup, "add_argument", note, raising=True)
    if word in OWN_ACCESS:
        options.parse_access(word, [])
    else:
        PARSE.get(word, lambda: options.parse_data(word, []))()
    offered = (OWN_ACCESS | OWN_COMMANDS)[word].options
    taken = {name: more for name, more in taken.items() if name.startswith("-")}
    assert set(offered) == set(taken) - ({"--json"} - set(offered))
    for name, values in offered.items():
        assert (values is None) == (taken[name].get("action") == "store_true"), name
        assert (values or None) == taken[name].get("choices"), name


def test_every_option_and_every_word_stands_in_the_usage() -> None:
    assert list(OWN_COMMANDS) == list(COMMANDS)
    for word, own in OWN_COMMANDS.items():
        shown = help_of(word) if word in MODULES else USAGE
        assert all(option in shown for option in own.options), word


def help_of(word: str) -> str:
    """Return the help of a command, with nothing installed for it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / source) for source in SOURCES)}
    command = [sys.executable, "-S", "-m", MODULES[word], "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_after_access_stand_the_words_of_both() -> None:
    assert tuple(OWN_ACCESS) == ACCESS_WORDS
    assert bash("access", "") == [*ACCESS_WORDS, *CLIENT_ACCESS]
    assert bash("access", "init", "--us") == ["--user"]
    assert bash("access", "init", "--rotate-key", "--r") == []
    for own in OWN_ACCESS.values():
        assert all(option in USAGE for option in own.options)


def test_the_benchmarks_are_those_that_bench_knows() -> None:
    assert bash("bench", "") == list(bench.programs())
    assert bash("bench", "sd") == ["sdk"]
    assert "--only" in bench_options("sdk")
    assert bash("bench", "sdk", "--onl") == ["--only"]
    assert bash("bench", "nonsense", "--") == ["--help"]


def test_what_follows_a_word_of_the_client_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_GANTRY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "./gantry\ntopic\nsh")
    monkeypatch.setenv("COMP_CWORD", "2")
    monkeypatch.setattr(install, "is_ready", lambda *_: False)
    monkeypatch.setattr(install, "ensure", lambda *_: pytest.fail("a key that is pressed installs nothing"))
    assert main([]) == 1


def test_bash_itself_completes_with_the_script_that_is_printed(tmp_path: Path) -> None:
    asking = f'{SCRIPTS["bash"]}\nCOMP_WORDS=(./gantry up --fl); COMP_CWORD=2; _gantry_complete ./gantry --fl up; echo "${{COMPREPLY[@]}}"'
    ran = subprocess.run(
        ["bash", "--norc", "-c", asking], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert (ran.stdout, ran.stderr) == ("--flush\n", "")
