"""`access init`, `access off` and `access dry-run`: what needs the files of a data directory rather than a running system."""

import json
import os
import shlex
import sys
from typing import NoReturn

from gantry_launcher import install
from gantry_launcher.access.keys import (
    FirstUser,
    KeyFolder,
    folder_of,
    keys_in_use,
    rotate,
    switch_off,
    switch_on,
)
from gantry_launcher.errors import Refused
from gantry_launcher.layout import PYTHON, ROOT, DataDir
from gantry_launcher.options import AccessOptions, parse_access
from gantry_launcher.output.terminal import say, write_out
from gantry_launcher.processes import control
from gantry_launcher.usage import USAGE

DRY_RUN = "gantry_guard.dry_run"


def access(words: list[str]) -> int:
    """Run `access WORD …`, and return its exit status."""
    word, *rest = words
    if word == "dry-run":
        _dry_run(rest)
    if {"-h", "--help"} & set(rest):
        write_out(USAGE)
        return 0
    options = parse_access(word, rest)
    return _init(options) if word == "init" else _off(options)


def _init(options: AccessOptions) -> int:
    data = DataDir(options.data)
    folder = folder_of(data) if options.keys is None else KeyFolder(options.keys)
    if keys_in_use(data) is not None:
        if options.keys is not None and folder != folder_of(data):
            raise Refused(
                f"access control of {data.path} is on already, with the keys in {folder_of(data).path}"
            )
        folder = folder_of(data)
        return _rotate(options, folder) if options.rotate_key else _already(options, folder)
    if options.rotate_key:
        raise Refused(
            f"access control of {data.path} is off: there is no key to rotate; ./gantry access init"
        )
    first = switch_on(data, folder, options.user)
    _report(options, folder, first)
    return 0


def _already(options: AccessOptions, folder: KeyFolder) -> int:
    words = f"access control of {options.data} is on already (keys in {folder.path}): nothing was changed"
    if options.json:
        write_out(_json(folder, None))
    else:
        write_out(f"{words}\n")
    return 0


def _rotate(options: AccessOptions, folder: KeyFolder) -> int:
    count = rotate(folder)
    if options.json:
        write_out(_json(folder, None, keys=count))
        return 0
    lines = [
        f"{folder.key_file} has a new current key, and {count - 1} older",
        f"next: {_next(options)}; then remove the older keys from the file after ./gantry access reseal (docs/operations.md)",
    ]
    write_out("\n".join(lines) + "\n")
    return 0


def _report(options: AccessOptions, folder: KeyFolder, first: FirstUser | None) -> None:
    if options.json:
        write_out(_json(folder, first))
        return
    lines = [
        f"access control of {options.data} is on from its next start",
        f"  key file  {folder.key_file}   (keep a copy elsewhere: without it no user's secret can be read)",
    ]
    if first is None:
        lines.append("  users     those that there were: the keys had been kept")
    else:
        lines += [
            f"  user      {first.name}   (may do everything)",
            f"  secret    {first.secret}   (shown only now)",
        ]
    write_out("\n".join([*lines, f"next: {_next(options)}"]) + "\n")


def _off(options: AccessOptions) -> int:
    data = DataDir(options.data)
    folder = folder_of(data)
    was_on = switch_off(data)
    if options.json:
        write_out(json.dumps({"accessControl": "off", "changed": was_on}) + "\n")
    elif was_on:
        write_out(
            f"access control of {data.path} is off from its next start; the keys are kept in {folder.put_away}\n"
            f"next: {_next(options)}; ./gantry access init switches it on again\n"
        )
    else:
        write_out(f"access control of {data.path} is off already: nothing was changed\n")
    return 0


def _json(folder: KeyFolder, first: FirstUser | None, **more: object) -> str:
    """Return one line for programs."""
    made = {} if first is None else {"user": first.name, "secret": first.secret}
    return (
        json.dumps(
            {
                "accessControl": "on",
                "created": first is not None,
                "keyFile": str(folder.key_file),
                **made,
                **more,
            }
        )
        + "\n"
    )


def _next(options: AccessOptions) -> str:
    """Return what to type so that the change takes effect."""
    place = "" if options.data == ROOT / "data" else f" --data {shlex.quote(str(options.data))}"
    running = control.ask(options.data, "status")
    if running is None:
        return f"./gantry up{place}"
    running.connection.close()
    return f"./gantry down{place} && ./gantry up{place}, with its options"


def _dry_run(words: list[str]) -> NoReturn:
    """Become the program that reads the audit logs: those of the default data directory, unless others are named."""
    install.ensure(install.RUN_LOCK, say)
    sys.stdout.flush()
    sys.stderr.flush()
    folder = str(DataDir(ROOT / "data").audit)
    command = [str(PYTHON), "-P", "-m", DRY_RUN, "--folder", folder, *words]
    os.execv(PYTHON, command)  # noqa: S606 - no shell is wanted
