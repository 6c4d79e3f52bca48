"""Shell completion of the first word and of the launcher's own commands.

The client completes its own commands. Starts nothing and installs nothing.
The questions and answers are those of the scripts that `gantrymq completion SHELL` prints.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gantry_launcher.commands.bench import files
from gantry_launcher.layout import ROOT
from gantry_launcher.usage import CLIENT_COMMANDS, COMPLETING

HELP = "--help"
_OPTION = re.compile(r"""add_argument\(\s*["'](--[a-z][a-z-]*)["']""")
_PROFILE = re.compile(r"""Entry\(\s*"([a-z-]+)",""")
PROFILES_FILE = ROOT / "loadtest" / "src" / "gantry_loadtest" / "catalog.py"
Values = tuple[str, ...] | None
"""What may follow an option: None: nothing, it is a switch; empty: anything, a file's name for instance; else one of these."""
ANYTHING: Values = ()


@dataclass(frozen=True)
class OwnWord:
    """A word of the launcher: what it does, in a few words, and its options."""

    help: str
    options: Mapping[str, Values] = field(default_factory=dict[str, Values])
    repeated: frozenset[str] = frozenset()
    """Options that may be given again."""


OPTIONS_ONLY = frozenset({"up", "status", "down", "restart", "report", "export"})
"""Words that take nothing but options: these are offered before their dashes are typed."""
_DATA: Mapping[str, Values] = {"--data": ANYTHING}
OWN_COMMANDS = {
    "up": OwnWord(
        "start everything",
        {
            **_DATA, "--free-ports": None, "--port-base": ANYTHING, "--brokers": ANYTHING, "--replicas": ("1", "2", "3", "5"), "--gateway-workers": ANYTHING, "--grpc-advertise": ANYTHING,
            "--flush": ("sync", "async"), "--replication": ("sync", "async"), "--listen": ANYTHING, "--access": None, "--insecure": None, "--hung-seconds": ANYTHING, "--timeout": ANYTHING, "--detach": None, "--json": None, "--set": ANYTHING,
        },
        frozenset({"--set"}),
    ),
    "status": OwnWord("what runs, and how it is", {**_DATA, "--json": None}),
    "down": OwnWord("stop it and wait", _DATA),
    "restart": OwnWord(
        "restart it step by step", {**_DATA, "--rolling": None, "--all": None, "--timeout": ANYTHING}
    ),
    "replicas": OwnWord(
        "add or remove a replica, or make a lost register again",
        {**_DATA, "--timeout": ANYTHING, "--without": ANYTHING, "--replace": None, "--yes": None, "--set": ANYTHING},
        frozenset({"--without", "--set"}),
    ),
    "test": OwnWord("check, then the whole test suite"),
    "check": OwnWord("format, lint, types, import rules, spelling"),
    "demo": OwnWord("the main job in a minute", {"--replicas": ("1", "2", "3", "5")}),
    "bench": OwnWord(
        "measure",
        {
            "--list": None, "--out": ANYTHING, "--only": ANYTHING, "--skip": ANYTHING, "--quick": None, "--against": ANYTHING,
            "--jars": ANYTHING, "--table": ANYTHING, "--into": ANYTHING,
        },
    ),
    "simulate": OwnWord(
        "the system under virtual time and faults",
        {
            "--seed": ANYTHING, "--lives": ANYTHING, "--minutes": ANYTHING, "--processes": ANYTHING, "--shrink": None,
            "--save": ANYTHING, "--plan": ANYTHING,
        },
    ),
    "report": OwnWord(
        "what the logs of the stores say, as a page",
        {
            **_DATA, "--store": ANYTHING, "--snapshot": ANYTHING, "--merge": ANYTHING, "--from": ANYTHING, "--to": ANYTHING,
            "--out": ANYTHING, "--follow": None, "--delay-levels": ANYTHING, "--master": ANYTHING, "--no-open": None,
        },
        frozenset({"--store", "--merge"}),
    ),
    "export": OwnWord(
        "a topic as a table",
        {
            **_DATA, "--topic": ANYTHING, "--to": ("parquet", "delta", "iceberg"), "--out": ANYTHING, "--store": ANYTHING,
            "--http": ANYTHING, "--json-schema": ANYTHING, "--prefix": ANYTHING, "--from-time": ANYTHING, "--to-time": ANYTHING,
            "--follow": None, "--every": ANYTHING, "--compact": None, "--compact-mib": ANYTHING, "--accept-loss": None,
            "--master": ANYTHING, "--json": None,
        },
        frozenset({"--topic", "--store", "--http"}),
    ),
    "load": OwnWord(
        "load a system over HTTP and judge it",
        {
            "--list": None, "--host": ANYTHING, "--users": ANYTHING, "--rate": ANYTHING, "--seconds": ANYTHING,
            "--size": ANYTHING, "--count": ANYTHING, "--headless": None, "--json": None, "--out": ANYTHING,
            "--max-p99-ms": ANYTHING, "--max-lost": ANYTHING, "--min-rate": ANYTHING,
        },
    ),
}  # fmt: skip
OWN_ACCESS = {
    "init": OwnWord(
        "switch access control on",
        {**_DATA, "--user": ANYTHING, "--keys": ANYTHING, "--rotate-key": None, "--json": None},
    ),
    "off": OwnWord("switch access control off", {**_DATA, "--json": None}),
    "dry-run": OwnWord(
        "what changed policies would have decided",
        {"--audit": ANYTHING, "--minutes": ANYTHING, "--json": None},
    ),
}
"""The words after `access` that the launcher does itself."""
CLIENT_ACCESS = ("explain", "whoami", "login", "logout", "reseal", "dev-certs", "users", "policies", "tokens")
"""The words after `access` that the client does."""


@dataclass(frozen=True)
class Typed:
    """A command line that is being typed: the words before the cursor's, and that one as far as it is there."""

    shell: str
    before: list[str]
    begun: str


def complete(environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Return what to print and the exit status; None where the client answers."""
    typed = _read(environment)
    if typed is None or (
        typed.before[:1] and typed.before[0] in CLIENT_COMMANDS and not _is_own_access(typed)
    ):
        return None
    found = {word: help_ for word, help_ in _candidates(typed) if word.startswith(typed.begun)}
    if typed.shell == "fish" and environment.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return "", 0 if found else 1
    words = _WRITE[typed.shell](found)
    return words + "\n" if words else "", 0


def _is_own_access(typed: Typed) -> bool:
    """Whether the launcher completes what follows `access`."""
    return typed.before[0] == "access" and (len(typed.before) == 1 or typed.before[1] in OWN_ACCESS)


def _read(environment: Mapping[str, str]) -> Typed | None:
    shell = environment.get(COMPLETING, "").removeprefix("complete_")
    if shell not in _WRITE:
        return None
    if shell == "bash":
        words = _split(environment.get("COMP_WORDS", ""))
        number = environment.get("COMP_CWORD", "")
        at = int(number) if number.isdigit() else len(words)
        begun = words[at] if at < len(words) else ""
        if begun == "=":  # bash takes --flush=sync for three words
            return Typed(shell, words[1:at], "")
        return Typed(shell, [word for word in words[1:at] if word != "="], begun)
    line = environment.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    if words and not line.endswith(" "):
        return Typed(shell, words[:-1], words[-1])
    return Typed(shell, words, "")


def _split(line: str) -> list[str]:
    """Return the words of a line whose last one may be unfinished."""
    parts = shlex.shlex(line, posix=True, punctuation_chars=False)
    parts.whitespace_split = True
    parts.commenters = ""
    words: list[str] = []
    try:
        words.extend(parts)
    except ValueError:  # a quote that is not closed yet
        words.append(parts.token.lstrip("'\""))
    return words


def _candidates(typed: Typed) -> Iterator[tuple[str, str]]:
    """Yield all that may stand at the cursor, each with what it is; nothing where names of files may."""
    if not typed.before:
        yield from ((word, own.help) for word, own in OWN_COMMANDS.items())
        yield from ((word, "") for word in CLIENT_COMMANDS)
        if typed.begun:
            yield HELP, ""
        return
    word, *rest = typed.before
    if word != "access":
        own = OWN_COMMANDS.get(word)
        yield from _after(word, own, rest, typed.begun) if own is not None else ()
    elif rest and rest[0] in OWN_ACCESS:
        yield from _after(word, OWN_ACCESS[rest[0]], rest[1:], typed.begun)
    elif not rest:
        yield from ((word, own.help) for word, own in OWN_ACCESS.items())
        yield from ((word, "") for word in CLIENT_ACCESS)


def _after(word: str, own: OwnWord, rest: list[str], begun: str) -> Iterator[tuple[str, str]]:
    """Yield all that may stand after a word and the rest of what was typed."""
    options = own.options
    if not rest:
        yield from ((name, "") for name in _NAMES.get(word, list[str])())
    elif word == "bench":
        options = dict.fromkeys(bench_options(rest[0]), None)
    values = options.get(rest[-1]) if rest else None
    name, equals, _ = begun.partition("=")
    if equals:
        yield from ((f"{name}={value}", "") for value in options.get(name) or ())
    elif values is not None:
        yield from ((value, "") for value in values)
    elif word in OPTIONS_ONLY or word == "access" or begun.startswith("-"):
        yield from ((option, "") for option in options if option not in rest or option in own.repeated)
        if begun:
            yield HELP, ""


def bench_options(name: str) -> list[str]:
    """Return the options of one of them; none where there is no such program."""
    file = files().get(name)
    return _OPTION.findall(file.read_text(encoding="utf-8")) if file else []


def load_names() -> list[str]:
    """Return the profiles of `load`, from the file that lists them: a profile begins as Entry("NAME", …)."""
    return _PROFILE.findall(PROFILES_FILE.read_text(encoding="utf-8"))


def _bash(found: Mapping[str, str]) -> str:
    return "\n".join(found)


def _zsh(found: Mapping[str, str]) -> str:
    if not found:
        return "_files"
    words = [f'"{word}":"{help_}"' if help_ else f'"{word}"' for word, help_ in found.items()]
    return "_arguments '*: :((" + "\n".join(words) + "))'"


def _fish(found: Mapping[str, str]) -> str:
    return "\n".join(f"{word}\t{help_}" if help_ else word for word, help_ in found.items())


_NAMES: Mapping[str, Callable[[], Iterable[str]]] = {
    "bench": files,
    "load": load_names,
    "replicas": lambda: ("add", "remove", "rebuild-register"),
}
"""What may follow a word that takes a name."""
_WRITE = {"bash": _bash, "zsh": _zsh, "fish": _fish}
