"""The keys of a data directory whose access control is on, and the file of its first user.

They lie in a folder of their own: a copy of the data directory must not be enough to read the secrets of users. The file
`access-control` in the data directory says that access control is on and where its keys are: a start without the keys is refused.
"""

import base64
import contextlib
import json
import secrets
import stat
import string
from pathlib import Path
from typing import NamedTuple

from gantry_launcher.access.private_files import write_private
from gantry_launcher.errors import Refused, why
from gantry_launcher.layout import DataDir

KEY_BYTES = 32
KEY_ID_BYTES = 4
SECRET_CHARS = 32
"""Letters and digits only: 190 bits, and no shell, URL or option parser reads a part of it as something else."""
OTHERS = 0o077
HEADER = "# The keys of one Gantry cluster: <key id> <Base64 of 32 bytes>. The first key is the current one; all services get this file.\n"


class KeyFolder(NamedTuple):
    """The folder of the keys of one cluster."""

    path: Path

    @property
    def key_file(self) -> Path:
        """The keys; the first one is the current one."""
        return self.path / "access.key"

    @property
    def put_away(self) -> Path:
        """The keys while access control is off."""
        return self.path / "access.key.off"

    @property
    def initial_user(self) -> Path:
        """The first user with its secret, until a store has taken it."""
        return self.path / "initial_user.json"


class FirstUser(NamedTuple):
    """A user that a store creates at its next start."""

    name: str
    secret: str


def default_folder(data: DataDir) -> KeyFolder:
    """Return the folder beside a data directory."""
    return KeyFolder(data.path.with_name(f"{data.path.name}-keys"))


def folder_of(data: DataDir) -> KeyFolder:
    """Return the folder that a data directory names, else the one beside it. Raises Refused."""
    try:
        named = data.access_marker.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        named = ""
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            f"cannot read {data.access_marker}: {getattr(error, 'strerror', None) or error}"
        ) from error
    return KeyFolder(Path(named)) if named else default_folder(data)


def keys_in_use(data: DataDir) -> KeyFolder | None:
    """Return the folder of the keys if access control is on, else None.

    Raises Refused if it is on and the keys are missing, or readable by other users.
    """
    folder = folder_of(data)
    try:
        mode = stat.S_IMODE(folder.key_file.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        if not data.access_marker.exists():
            return None
        raise Refused(
            f"access control of {data.path} is on, and its key file {folder.key_file} is missing: "
            f"put it back, or switch access control off with ./gantry access off --data {data.path}"
        ) from None
    except OSError as error:
        raise Refused(f"cannot read {folder.key_file}: {why(error)}") from error
    if mode & OTHERS:
        raise Refused(
            f"other users may read {folder.key_file} (mode {mode:04o}): chmod 600 {folder.key_file}"
        )
    return folder


def switch_on(data: DataDir, folder: KeyFolder, user: str) -> FirstUser | None:
    """Make the keys and the first user, and return that user; None if there are keys already. Raises Refused."""
    if data.path.resolve() in [folder.path.resolve(), *folder.path.resolve().parents]:
        raise Refused(
            f"--keys {folder.path} lies in the data directory: a copy of that would contain the keys"
        )
    first = None
    if folder.put_away.exists() and not folder.key_file.exists():
        _rename(folder.put_away, folder.key_file)
    elif not folder.key_file.exists():
        first = FirstUser(user, _secret())
        text = json.dumps({"username": first.name, "password": first.secret}) + "\n"
        write_private(folder.initial_user, text)
        # The keys come last: a run that is killed before leaves nothing that counts.
        write_private(folder.key_file, HEADER + _key_line())
    named = "" if folder == default_folder(data) else f"{folder.path}\n"
    write_private(data.access_marker, named)
    return first


def switch_off(data: DataDir) -> bool:
    """Put the keys away; return whether access control was on. Raises Refused."""
    folder = folder_of(data)
    was_on = data.access_marker.exists()
    if folder.key_file.exists():
        was_on = True
        _rename(folder.key_file, folder.put_away)
    with contextlib.suppress(FileNotFoundError):
        data.access_marker.unlink()
    return was_on


def rotate(folder: KeyFolder) -> int:
    """Put a new key in front of the others, and return how many keys there are. Raises Refused."""
    try:
        kept = folder.key_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            f"cannot read {folder.key_file}: {getattr(error, 'strerror', None) or error}"
        ) from error
    lines = kept.removeprefix(HEADER).splitlines()
    keys = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    write_private(folder.key_file, HEADER + _key_line() + "".join(f"{line}\n" for line in lines))
    return len(keys) + 1


def _key_line() -> str:
    key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode("ascii")
    return f"key-{secrets.token_hex(KEY_ID_BYTES)} {key}\n"


def _secret() -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(SECRET_CHARS))


def _rename(old: Path, new: Path) -> None:
    try:
        old.rename(new)
    except OSError as error:
        raise Refused(f"cannot rename {old} to {new.name}: {why(error)}") from error
