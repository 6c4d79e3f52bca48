"""Users and the subjects of policies. A user's secrets are opaque here: the code that verifies signatures seals and opens them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from gantry_access.errors import IllegalUser, MalformedSubject
from gantry_access.limits import SECRETS_PER_USER_MAX, USER_NAME_CHARACTERS_MAX

SUBJECT_TYPE = "User"
"""The only type of subject that RocketMQ has."""


class UserType(Enum):
    """A Super user skips all policies."""

    SUPER = "Super"
    NORMAL = "Normal"
    INNER = "Inner"
    """One of Gantry's own services. Skips all policies, and alone may send what only they send. Our own type.

    Only the configuration of a service makes such a user: no admin request, stored record or plain_acl.yml can.
    """


ADMIN_TYPES = (UserType.SUPER, UserType.NORMAL)
"""The types that administrators give, and that are stored."""


class UserStatus(Enum):
    """A disabled user keeps its policies and may do nothing."""

    ENABLE = "enable"
    DISABLE = "disable"


class Subject(NamedTuple):
    """The owner of policies: a user."""

    name: str

    @classmethod
    def parse(cls, text: str) -> Subject:
        """Return the subject of `User:<name>`. Raises MalformedSubject."""
        kind, colon, name = text.partition(":")
        if kind.lower() != SUBJECT_TYPE.lower() or not colon:
            raise MalformedSubject(f"the subject {text[:64]!r} is not User:name")
        try:
            check_user_name(name)
        except IllegalUser as error:
            raise MalformedSubject(f"the subject {text[:64]!r} is not User:name: {error}") from error
        return cls(name)

    @property
    def text(self) -> str:
        """`User:<name>`."""
        return f"{SUBJECT_TYPE}:{self.name}"


@dataclass(slots=True, frozen=True)
class User:
    """One user. Raises IllegalUser when its parts break a rule."""

    name: str
    """The access key that clients sign with."""
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Live secrets, each sealed. Two while one replaces the other; none if the user cannot sign."""
    expires_ms: int | None = None
    """Wall time from which on the user may do nothing; None: never."""

    def __post_init__(self) -> None:
        check_user_name(self.name)
        if len(self.secrets) > SECRETS_PER_USER_MAX:
            raise IllegalUser(f"the user {self.name!r} has more than {SECRETS_PER_USER_MAX} secrets")

    @property
    def is_super(self) -> bool:
        """Whether the user skips all policies."""
        return self.type is UserType.SUPER

    @property
    def is_inner(self) -> bool:
        """Whether the user is one of Gantry's own services."""
        return self.type is UserType.INNER

    @property
    def is_disabled(self) -> bool:
        """Whether an administrator disabled the user."""
        return self.status is UserStatus.DISABLE

    def has_expired(self, now_ms: int) -> bool:
        """Whether the user's time is over at this wall time."""
        return self.expires_ms is not None and now_ms >= self.expires_ms

    @property
    def subject(self) -> Subject:
        """The subject of the user's policies."""
        return Subject(self.name)


def check_user_name(name: str) -> None:
    """Raise IllegalUser if a name is blank, too long or has control characters, which would break lines of the audit log."""
    if not name.strip():
        raise IllegalUser("the user name is blank")
    if len(name) > USER_NAME_CHARACTERS_MAX:
        raise IllegalUser(
            f"the user name has {len(name)} characters, the limit is {USER_NAME_CHARACTERS_MAX}"
        )
    if not name.isprintable():
        raise IllegalUser(f"the user name {name!r} has a control character")
