"""Settings of one process, read once: defaults < file (-c) < PREFIX_NAME variables < --set name=value.

A service declares one frozen msgspec Struct whose fields have bounds and descriptions (`Annotated[int, Meta(ge=1,
description="…")]`). Only this module reads the environment; the Struct is passed down as plain values.
"""

import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from gantry_chassis.start_refusal import refuse_start

S = TypeVar("S", bound=msgspec.Struct)

MASK = "********"
FAST_PATHS = "GANTRY_FAST_PATHS"
"""Environment variable of every service, for tests alone; so no setting."""


class SettingsRefused(Exception):
    """Invalid settings; the text says which one, from where, and what is allowed."""


class Arguments(NamedTuple):
    """A parsed command line; `sets` holds --set pairs and named options in their order."""

    file: Path | None
    sets: dict[str, str]
    switches: frozenset[str]


class Setting(NamedTuple):
    """One setting for help and documentation."""

    name: str
    type: str
    default: object
    description: str
    secret: bool


def load_settings(
    struct: type[S],
    prefix: str,
    argv: Sequence[str] | Arguments,
    *,
    environ: Mapping[str, str] | None = None,
    read_file: Callable[[Path], Mapping[str, Any]] | None = None,
) -> S:
    """Return the settings, or raise SettingsRefused naming the setting, its source and the bound.

    `read_file` turns the file given with -c into names and values (default: TOML).
    """
    arguments = argv if isinstance(argv, Arguments) else parse_arguments(argv)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, name, value in _layers(struct, prefix, arguments, environ, read_file or read_toml):
        values[name], sources[name] = value, source
    types = get_type_hints(struct)
    for name, value in values.items():
        values[name] = _split(types[name], value) if isinstance(value, str) else value
    try:
        return msgspec.convert(values, struct, strict=False, dec_hook=_to_path)
    except (msgspec.ValidationError, ValueError) as error:
        raise SettingsRefused(_explain(str(error), sources, struct)) from error


def settings_or_exit(
    struct: type[S],
    service: str,
    argv: Sequence[str] | Arguments,
    *,
    read_file: Callable[[Path], Mapping[str, Any]] | None = None,
) -> S:
    """Load settings as `load_settings` does. A refusal prints one line and exits with 2; `--help` lists every setting."""
    if not isinstance(argv, Arguments) and {"-h", "--help"} & set(argv):
        sys.stdout.write(help_text(struct, service))
        raise SystemExit(0)
    try:
        return load_settings(struct, service.replace("-", "_").upper(), argv, read_file=read_file)
    except SettingsRefused as refused:
        refuse_start(service, str(refused))


def has_fast_paths(service: str, environ: Mapping[str, str] | None = None) -> bool:
    """Whether fast paths are on; GANTRY_FAST_PATHS=0 turns them off, so that tests can compare. Any other value than 0 or 1 refuses the start."""
    value = (os.environ if environ is None else environ).get(FAST_PATHS, "1")
    if value not in {"0", "1"}:
        refuse_start(service, f"{FAST_PATHS} (from the environment): {value!r} is neither 0 nor 1")
    return value == "1"


def parse_arguments(
    argv: Sequence[str], *, options: Mapping[str, str] | None = None, switches: Sequence[str] = ()
) -> Arguments:
    """Parse a command line: `-c FILE`, `--set name=value`, `options` ({"-n": "nameservers"}) and bare `switches`."""
    options = options or {}
    file: Path | None = None
    sets: dict[str, str] = {}
    seen: set[str] = set()
    rest = iter(argv)
    for word in rest:
        if word in switches:
            seen.add(word)
        elif word == "-c":
            file = Path(_argument(word, rest))
        elif word == "--set":
            name, equals, value = _argument(word, rest).partition("=")
            if not equals:
                raise SettingsRefused(f"--set {name}: write name=value")
            sets[name.strip().replace("-", "_")] = value
        elif word in options:
            sets[options[word]] = _argument(word, rest)
        else:
            raise SettingsRefused(f"unknown argument {word!r}; known: -c FILE, --set name=value, --help")
    return Arguments(file, sets, frozenset(seen))


def describe(struct: type[msgspec.Struct]) -> list[Setting]:
    """Return every setting with its type, default and description, in the order of the Struct."""
    types = get_type_hints(struct, include_extras=True)
    return [_describe(field, types[field.name]) for field in msgspec.structs.fields(struct)]


def masked(settings: msgspec.Struct) -> dict[str, object]:
    """Return the settings for the log: secrets (Meta extra {"secret": True}) are masked when set."""
    secrets = {setting.name for setting in describe(type(settings)) if setting.secret}
    values = msgspec.structs.asdict(settings)
    return {name: MASK if name in secrets and value else value for name, value in values.items()}


def help_text(struct: type[msgspec.Struct], service: str) -> str:
    """Return the text of --help: how to set, then every setting with default and description."""
    prefix = service.replace("-", "_").upper()
    lines = [f"{service}: settings, by -c FILE, {prefix}_NAME or --set name=value", ""]
    lines += [
        f"  {s.name} ({s.type}, default {s.default!r})\n      {s.description}" for s in describe(struct)
    ]
    return "\n".join(lines) + "\n"


def read_toml(path: Path) -> dict[str, Any]:
    """Read a settings file: one flat TOML table of names and values."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsRefused(f"cannot read the settings file {path}: {error}") from error


def _layers(
    struct: type[msgspec.Struct],
    prefix: str,
    arguments: Arguments,
    environ: Mapping[str, str] | None,
    read_file: Callable[[Path], Mapping[str, Any]],
) -> Iterator[tuple[str, str, Any]]:
    """Yield (source, name, value), weakest layer first. An unknown name is refused with its source."""
    known = set(struct.__struct_fields__)
    if arguments.file is not None:
        for name, value in read_file(arguments.file).items():
            yield str(arguments.file), _known(name, known, str(arguments.file)), value
    variables = os.environ if environ is None else environ
    for name in struct.__struct_fields__:
        variable = f"{prefix}_{name.upper()}"
        if variable in variables:
            yield variable, name, variables[variable]
    for name, value in arguments.sets.items():
        yield f"--set {name}", _known(name, known, "--set"), value


def _known(name: str, known: set[str], source: str) -> str:
    if name not in known:
        raise SettingsRefused(f"{source}: unknown setting {name!r}; known: {', '.join(sorted(known))}")
    return name


def _argument(option: str, rest: Iterator[str]) -> str:
    try:
        return next(rest)
    except StopIteration:
        raise SettingsRefused(f"{option} needs a value") from None


def _split(kind: Any, value: str) -> str | list[str]:
    """Split the text of a sequence setting at commas and strip the parts."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in {list, tuple, frozenset, set}:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _to_path(kind: type, value: object) -> Path:
    if kind is not Path or not isinstance(value, str):
        raise TypeError(f"a setting of type {kind} cannot be read")
    return Path(value)


def _explain(description: str, sources: Mapping[str, str], struct: type[msgspec.Struct]) -> str:
    """Turn msgspec's "… - at `$.port`" into "port (from --set port): …". A value that is none of several is answered with them."""
    text, _, path = description.partition(" - at `$.")
    name = path.rstrip("`").partition("[")[0]
    choices = get_args(get_type_hints(struct).get(name))
    if text.startswith("Invalid enum value") and choices:
        text += f"; it may be {', '.join(map(str, choices[:-1]))} or {choices[-1]}"
    return f"{name} (from {sources.get(name, 'the defaults')}): {text}" if name else text


def _describe(field: msgspec.structs.FieldInfo, kind: Any) -> Setting:
    metas = [part for part in get_args(kind)[1:] if isinstance(part, msgspec.Meta)]
    description = " ".join(meta.description for meta in metas if meta.description)
    secret = any((meta.extra or {}).get("secret", False) for meta in metas)
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    default = field.default if field.default is not msgspec.NODEFAULT else ""
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    name = plain.__name__ if isinstance(plain, type) and get_origin(plain) is None else str(plain)
    return Setting(field.name, name.replace("typing.", ""), default, description, secret)
