"""RocketMQ's UserInfo, the body of 3001 to 3005.

Differs from RocketMQ: a password is read but never written, and an unknown type or status is refused instead of becoming the default.
No body makes a user of type Inner.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from gantry_access.errors import IllegalUser
from gantry_access.formats.refused_change import RefusedChange, no_permission
from gantry_access.model.users import ADMIN_TYPES, User, UserStatus, UserType, check_user_name
from gantry_access.secrets.hidden_text import HiddenText
from gantry_wire.bodies.fastjson import dumps
from gantry_wire.bodies.json_body import Body, decode_body, encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedBody

EnumT = TypeVar("EnumT", bound=Enum)


class UserInfo(Body, kw_only=True, rename="camel"):
    """The fields of the body. Absent and blank ones change nothing."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    def __repr__(self) -> str:
        """Return the fields without the password."""
        return f"UserInfo({self.username!r}, {self.user_type!r}, {self.user_status!r})"


@dataclass(slots=True, frozen=True)
class UserChange:
    """What an administrator asks for. None: leave it as it is, or the default of a new user."""

    name: str
    password: HiddenText | None = None
    """In clear, to be sealed."""
    type: UserType | None = None
    status: UserStatus | None = None


def read_new_user(body: bytes, name: str) -> UserChange:
    """Return the user of a create request (3001) with the name of its header. Raises RefusedChange."""
    change = read_user_change(body, name)
    if change.password is None:
        raise no_permission("password can not be blank")
    return change


def read_user_change(body: bytes, name: str) -> UserChange:
    """Return the changes of an update request (3002) with the name of its header. Raises RefusedChange."""
    if not name.strip():
        raise RefusedChange(ResponseCode.INVALID_PARAMETER, "The username is blank")
    try:
        check_user_name(name)
        info = decode_body(body, UserInfo)
    except IllegalUser as error:
        raise RefusedChange(ResponseCode.INVALID_PARAMETER, str(error)) from error
    except MalformedBody as error:
        raise RefusedChange(error.code, str(error)) from error
    return UserChange(
        name,
        HiddenText(info.password) if info.password and info.password.strip() else None,
        _member(ADMIN_TYPES, "user type", info.user_type),
        _member(UserStatus, "user status", info.user_status),
    )


def write_user(user: User) -> bytes:
    """Return the reply body of 3004, without a password."""
    return encode_body(_info(user))


def write_users(users: Iterable[User]) -> bytes:
    """Return the reply body of 3005, without passwords."""
    return dumps([_info(user) for user in users])


def _info(user: User) -> UserInfo:
    return UserInfo(username=user.name, user_type=user.type.value, user_status=user.status.value)


def _member(kind: Iterable[EnumT], what: str, text: str | None) -> EnumT | None:
    if text is None or not text.strip():
        return None
    for member in kind:
        if member.value.lower() == text.lower():
            return member
    known = " or ".join(member.value for member in kind)
    raise RefusedChange(ResponseCode.INVALID_PARAMETER, f"The {what} {text[:64]!r} is unknown, it is {known}")
