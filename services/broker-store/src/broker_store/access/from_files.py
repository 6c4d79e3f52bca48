"""Users that a start reads from files: the first user, and the accounts of a plain_acl.yml of RocketMQ 4.9."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from broker_store.access.administration import AccessAdministration
from gantry_access.errors import IllegalUser
from gantry_access.formats.plain_acl import PlainAcl, read_plain_acl
from gantry_access.formats.user_info import UserChange
from gantry_access.model.users import check_user_name
from gantry_access.secrets.hidden_text import HiddenText
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.start_refusal import StartRefused

FILE_BYTES_MAX = 4 * 1024 * 1024
_log = get_logger()


class FirstUser(msgspec.Struct):
    """Content of the file, and of RocketMQ's setting initAuthenticationUser."""

    username: str
    password: str

    def __repr__(self) -> str:
        """Return it without the password."""
        return f"FirstUser({self.username!r})"


class UserFiles(NamedTuple):
    """What the files hold, None for one that is not set."""

    first: FirstUser | None
    accounts: PlainAcl | None
    first_missing: str = ""
    """The path of the first user's file if there is no such file."""


def read_user_files(first: str, accounts: str) -> UserFiles:
    """Return the users of both files. Raises StartRefused.

    The file of the first user may be missing: once a store has taken the user, nothing needs the secret on the disk.
    """
    is_missing = bool(first) and not Path(first).exists()
    user = read_first_user(first) if first and not is_missing else None
    return UserFiles(user, read_accounts(accounts) if accounts else None, first if is_missing else "")


def read_first_user(path: str) -> FirstUser:
    """Return the user of a file. Raises StartRefused, without showing what the file holds."""
    try:
        user = msgspec.json.decode(_content(path), type=FirstUser)
    except ValueError:
        raise StartRefused(f'{path} is not {{"username": …, "password": …}}') from None
    try:
        check_user_name(user.username)
    except IllegalUser as error:
        raise StartRefused(f"{path}: {error}") from error
    if not user.password.strip():
        raise StartRefused(f"{path}: the password is blank")
    return user


def read_accounts(path: str) -> PlainAcl:
    """Return the accounts of a plain_acl.yml. Raises StartRefused for a file that cannot be read, or is not YAML."""
    try:
        # every value stays text: YAML reads the secret 0123 as a number
        content: Any = yaml.load(_content(path), Loader=yaml.BaseLoader)  # noqa: S506 - it makes texts, lists and mappings only
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        where = "" if place is None else f", line {place.line + 1}"
        raise StartRefused(f"the ACL file {path} is not YAML{where}") from None
    return read_plain_acl(content)


async def add_users(administration: AccessAdministration, files: UserFiles | None) -> None:
    """Store the first user if there is none, and the accounts that no entry names. Logs what was added, and what an account loses."""
    first, accounts, missing = files or (None, None, "")
    if missing and not len(administration.table.state):
        _log.warning("there is no user, and no file to make the first one of", file=missing)
    if first is not None and await administration.add_first(first.username, HiddenText(first.password)):
        _log.info("the first user was made: a Super user", user=first.username)
    if accounts is None:
        return
    for message in accounts.unreadable:
        _log.error("plain_acl_file: not read", reason=message)
    added = 0
    for account in accounts.accounts:
        change = UserChange(account.user.name, account.secret, account.user.type)
        added += await administration.add_from_file(change, account.policies)
    if added:
        _log.info("plain_acl_file: users added", users=added)
        for note in accounts.notes:
            _log.warning("plain_acl_file", note=note)


def _content(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise StartRefused(f"cannot read {path}: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise StartRefused(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    return content
