"""The credentials of a command: a token, or a user with its secret. A secret is never an argument, because `ps` and the shell's history show those.

They are those of the command line, else of the environment, else of the file that `gantrymq access login` writes, which names a
gateway for each: no gateway gets the credentials of another one.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gantrymq.cli.stops import FAILED, NOT_FOUND, WRONG_USE, Stop
from gantrymq.formats.basic_credentials import basic

SECRET_VARIABLE = "GANTRY_SECRET_KEY"  # noqa: S105 - the name of a variable
FILE_VARIABLE = "GANTRY_CREDENTIALS"
OTHERS = 0o077
SECRET_CHARS_MAX = 1024


def authorization_of(base: str, token: str, access_key: str, secret_file: Path | None) -> str:
    """Return the value of the header `Authorization` for a gateway; empty without credentials. Raises Stop."""
    if token:
        if not (token.isascii() and token.isprintable()):
            raise Stop("--token: a token consists of printable ASCII characters", WRONG_USE)
        return f"Bearer {token}"
    if access_key:
        return basic_of(access_key, secret_of(access_key, secret_file))
    if secret_file is not None:
        raise Stop("--secret-file: name its user with --access-key", WRONG_USE)
    kept = kept_tokens(credentials_file()).get(base)
    return "" if kept is None else f"Bearer {kept.token}"


def basic_of(access_key: str, secret: str) -> str:
    """Return the header for a user and its secret. Raises Stop for a name that HTTP cannot carry."""
    try:
        return basic(access_key, secret)
    except ValueError as error:
        raise Stop(f"--access-key: {error}", WRONG_USE) from None


def secret_of(access_key: str, secret_file: Path | None) -> str:
    """Return the secret of a user: of a file, else of GANTRY_SECRET_KEY, else typed at the terminal. Raises Stop."""
    if secret_file is not None:
        return read_secret(secret_file)
    found = os.environ.get(SECRET_VARIABLE, "")
    return found or ask_secret(f"Secret of {access_key}: ")


def read_secret(path: Path) -> str:
    """Return the first line of a file; `-` is standard input. Raises Stop."""
    try:
        text = (
            sys.stdin.readline() if str(path) == "-" else path.read_text(encoding="utf-8").partition("\n")[0]
        )
    except FileNotFoundError:
        raise Stop(f"there is no file {path}", NOT_FOUND) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", FAILED) from error
    secret = text.strip("\r\n")
    if not 0 < len(secret) <= SECRET_CHARS_MAX:
        raise Stop(
            f"{path} holds no secret: its first line is empty, or longer than {SECRET_CHARS_MAX} characters",
            WRONG_USE,
        )
    return secret


def ask_secret(question: str) -> str:
    """Ask at the terminal, without an echo. Raises Stop if there is none."""
    if not sys.stdin.isatty():
        raise Stop(
            f"there is no terminal to ask for a secret: use --secret-file or {SECRET_VARIABLE}", WRONG_USE
        )
    from getpass import getpass

    secret = getpass(question)
    if not secret:
        raise Stop("no secret was typed", FAILED)
    return secret


def credentials_file() -> Path:
    """Return the file of kept tokens: GANTRY_CREDENTIALS, else `gantrymq/credentials` in the user's folder of configuration."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "gantrymq" / "credentials"


class Kept(NamedTuple):
    """A token of a file, and its id, which revokes it."""

    token: str
    id: str


def kept_tokens(path: Path) -> Mapping[str, Kept]:
    """Return the tokens of a file by the address of their gateway; none if there is no file. Raises Stop for a file that others may read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & OTHERS:
            raise Stop(f"other users may read {path} (mode {mode:04o}): chmod 600 {path}", WRONG_USE)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {base: Kept(str(one["token"]), str(one["id"])) for base, one in found.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise Stop(f"cannot read {path}: {error.strerror or error}", FAILED) from error
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        words = f"{path} does not hold credentials: remove it, and log in again with gantrymq access login"
        raise Stop(words, FAILED) from error


def keep_token(path: Path, base: str, token: Kept | None) -> None:
    """Keep the token of a gateway in a file that only its user may read; None removes it. Raises Stop."""
    kept = {**kept_tokens(path), base: token}
    text = json.dumps({name: one._asdict() for name, one in kept.items() if one is not None}, indent=1) + "\n"
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)  # of a run that was killed
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        raise Stop(f"cannot write {path}: {error.strerror or error}", FAILED) from error
