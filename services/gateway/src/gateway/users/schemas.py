"""Bodies of the calls about users, policies and tokens."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from gantry_access.limits import ENTRIES_PER_SUBJECT_MAX, NETWORKS_PER_ENTRY_MAX, USER_NAME_CHARACTERS_MAX
from gateway.requests.fields import Body, Shown

USER_PATTERN = r"^[A-Za-z0-9._~-]{1,255}$"
"""User names over HTTP. They stand in paths and in Basic credentials, so they have no colon and no blank."""
SUBJECT_PATTERN = r"^(User:)?[A-Za-z0-9._~-]{1,255}$"
SECRET_CHARS_MIN = 8
ACTIONS_MAX = 8
SCOPE_MAX = 100
TOKEN_SECONDS_MAX = 366 * 86_400
"""The longest life of a token in the stores."""
SECRET_CHARS_MAX = 256
"""A secret has 1024 bytes at most, a character up to four."""
TOKEN_SECONDS_DEFAULT = 30 * 86_400

UserName = Annotated[
    str, Meta(pattern=USER_PATTERN, max_length=USER_NAME_CHARACTERS_MAX, description="Name of the user.")
]
Subject = Annotated[
    str,
    Meta(
        pattern=SUBJECT_PATTERN,
        max_length=USER_NAME_CHARACTERS_MAX + 5,
        description="Subject of the policies: `User:name`, or the name alone.",
    ),
]
Secret = Annotated[
    str,
    Meta(
        min_length=SECRET_CHARS_MIN,
        max_length=SECRET_CHARS_MAX,
        description="The secret; without it one is generated, and returned once.",
    ),
]
UserKind = Annotated[
    Literal["Super", "Normal"],
    Meta(description="A Super user skips all policies; only Super users make and change one."),
]
UserState = Literal["enable", "disable"]
Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339.")]
ResourceText = Annotated[
    str,
    Meta(min_length=1, max_length=300, description="`Type:name`, `Type:prefix*`, `Type:*` or `*`."),
]
ActionName = Literal["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"]
Actions = Annotated[list[ActionName], Meta(min_length=1, max_length=ACTIONS_MAX)]
NetworkText = Annotated[str, Meta(min_length=1, max_length=64)]


class NewUser(Body):
    """A user to create."""

    user: UserName
    type: UserKind = "Normal"
    status: UserState = "enable"
    secret: Secret | None = None
    expires_at: Annotated[
        Moment | None, Meta(description="When the user may do nothing any more; null: never.")
    ] = None


class UserChange(Body):
    """What to change; null changes nothing."""

    type: UserKind | None = None
    status: UserState | None = None
    secret: Annotated[Secret | None, Meta(description="Replaces all secrets.")] = None
    expires_at: Moment | None = None
    never_expires: Annotated[bool, Meta(description="Removes the time at which the user expires.")] = False
    drop_old_secret: Annotated[
        bool, Meta(description="Ends a rotation: only the newest secret stays valid.")
    ] = False


class Rotation(Body):
    """The second secret of a user."""

    secret: Secret | None = None


class ResealOrder(Body):
    """How to seal secrets again."""

    dry_run: Annotated[bool, Meta(description="Only list the users; change nothing.")] = False


class Unopened(Shown):
    """A user with a secret that no key of the key file opens."""

    user: str
    reason: str


class Resealed(Shown):
    """Whose secrets an old key had sealed, and whose do not open."""

    users: list[str]
    unopened: list[Unopened]
    dry_run: bool


class UserShown(Shown):
    """A user, without its secrets."""

    user: str
    type: str
    status: UserState
    secrets: int
    """How many secrets are valid: two while one replaces the other."""
    expires_at: str | None


class UserTaken(Shown):
    """A changed user, and which store took the change; `secret` is the generated one, shown once."""

    user: UserShown
    secret: str | None
    broker: str


class UsersShown(Shown):
    """Users by name; `next` is the name to continue after."""

    users: list[UserShown]
    next: str | None


class Taken(Shown):
    """A deletion, and which store took it."""

    status: Literal["deleted"]
    broker: str


class EntryBody(Body):
    """One entry of policies."""

    resource: ResourceText
    actions: Actions
    decision: Literal["Allow", "Deny"] = "Allow"
    networks: Annotated[
        list[NetworkText],
        Meta(
            max_length=NETWORKS_PER_ENTRY_MAX,
            description="IP addresses or networks it is limited to; empty: from everywhere.",
        ),
    ] = field(default_factory=list[str])


Entries = Annotated[list[EntryBody], Meta(max_length=ENTRIES_PER_SUBJECT_MAX)]


class PoliciesBody(Body):
    """All policies of a subject; they replace those before."""

    custom: Entries = field(default_factory=list[EntryBody])
    default: Annotated[Entries, Meta(description="Count only for what no entry of `custom` matches.")] = (
        field(default_factory=list[EntryBody])
    )


class EntryShown(Shown):
    """One entry of policies."""

    resource: str
    actions: list[str]
    decision: str
    networks: list[str]


class PoliciesShown(Shown):
    """All policies of a subject."""

    subject: str
    custom: list[EntryShown]
    default: list[EntryShown]


class PoliciesTaken(Shown):
    """Changed policies, and which store took the change."""

    policies: PoliciesShown
    broker: str


class AllPoliciesShown(Shown):
    """Policies by subject; `next` is the name to continue after."""

    policies: list[PoliciesShown]
    next: str | None


class ScopeBody(Body):
    """What a token may be used for: some actions on a resource."""

    resource: ResourceText
    actions: Actions


class NewToken(Body):
    """A token to create."""

    user: UserName
    scope: Annotated[
        list[ScopeBody] | None,
        Meta(description="What of the user's rights it has; null: all of them."),
    ] = None
    expires_in_seconds: Annotated[
        int, Meta(ge=1, le=TOKEN_SECONDS_MAX, description="How long it is valid.")
    ] = TOKEN_SECONDS_DEFAULT


class ScopeShown(Shown):
    """What a token may be used for."""

    resource: str
    actions: list[str]


class TokenShown(Shown):
    """A token, without its text."""

    id: str
    user: str
    scope: list[ScopeShown]
    created_at: str
    expires_at: str


class TokenTaken(Shown):
    """A new token with its text, which is shown once, and which store took it."""

    token: str
    details: TokenShown
    broker: str


class TokensShown(Shown):
    """Tokens by id; `next` is the id to continue after."""

    tokens: list[TokenShown]
    next: str | None


class Question(Body):
    """Whether a user may do something."""

    resource: ResourceText
    actions: Annotated[
        Actions,
        Meta(description="Alternatives: one of them is enough, as in a request that needs `Sub/Get`."),
    ]
    user: Annotated[UserName | None, Meta(description="null: the user that asks.")] = None
    from_: Annotated[
        NetworkText | None, Meta(description="IP address; null: entries limited to networks do not match.")
    ] = field(default=None, name="from")


class RuleShown(Shown):
    """One rule that covers the resource."""

    part: Literal["decides", "loses", "no match"]
    type: Literal["Custom", "Default"]
    entry: EntryShown
    why: str


class Explained(Shown):
    """The answer: in words for people, in parts for programs."""

    user: str
    allowed: bool
    reason: str
    rules: list[RuleShown]
    text: str


class WhoAmI(Shown):
    """Who calls, as access control sees it."""

    user: str
    type: str
    way: Literal["token", "secret", "jwt", "certificate", "signature", "inner"]
    token_id: str | None
    scope: list[ScopeShown] | None
    """null: all that the user may do."""
    ends_at: str | None
    """When the token or JWT ends."""
    address: str
