"""Users: list, show, create, change, rotate the secret, delete."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gantry_access.model.users import User, UserStatus, UserType
from gateway.http.call import Call
from gateway.http.problems import invalid
from gateway.requests.operations import Details, Operation, Operations
from gateway.users.schemas import (
    NewUser,
    Rotation,
    Taken,
    UserChange,
    UserName,
    UsersShown,
    UserTaken,
)
from gateway.users.shown import page_of, user_shown
from gateway.users.switch import Switch

LIST_MAX, LIST_DEFAULT = 1000, 100
Filter = Annotated[str, Meta(max_length=255, description="Only names that contain this text; empty: all.")]
PageMax = Annotated[int, Meta(ge=1, le=LIST_MAX)]
After = Annotated[str, Meta(max_length=255, description="`next` of the previous page.")]

_SHOWN = {"user": "alice", "type": "Normal", "status": "enable", "secrets": 1, "expiresAt": None}
_TAKEN = {"user": _SHOWN, "secret": None, "broker": "broker-a"}
_MADE = Details(
    body_example={"user": "alice"},
    reply_description="The user; `secret` is the generated one, shown only here.",
    reply_example=_TAKEN | {"secret": "5f0c…"},
)

if TYPE_CHECKING:
    from gateway.users.accounts import Accounts, NewSecret


def user_routes(accounts: "Switch[Accounts]") -> list[Operation]:
    """Return the routes."""
    calls = Operations("users")

    @calls.get("/v1/users", 400, 404)
    async def list_users(filter_: Filter = "", max_: PageMax = LIST_DEFAULT, after: After = "") -> UsersShown:
        """List users by name."""
        state = accounts.on().table.state
        found = [(one.user.name, one.user) for one in state if filter_ in one.user.name]
        users, more = page_of(found, after, max_)
        return UsersShown([user_shown(user) for user in users], more)

    @calls.post("/v1/users", 400, 403, 404, 409, 413, 415, 501, details=_MADE)
    async def create_user(call: Call, body: NewUser) -> UserTaken:
        """Create a user."""
        secret = accounts.on().new_secret(body.user, body.secret)
        user = User(
            body.user,
            UserType(body.type),
            UserStatus(body.status),
            (secret.sealed,),
            None if body.expires_at is None else round(body.expires_at.timestamp() * 1000),
        )
        return _taken(user, secret, await accounts.on().create(call, user))

    @calls.get("/v1/users/{name:id}", 400, 404)
    async def show_user(name: UserName) -> UsersShown:
        """Show a user."""
        return UsersShown([user_shown(accounts.on().account(name).user)], None)

    @calls.patch("/v1/users/{name:id}", 400, 403, 404, 409, 413, 415, 501)
    async def change_user(call: Call, name: UserName, body: UserChange) -> UserTaken:
        """Change a user."""
        before = accounts.on().account(name).user
        secret = None if body.secret is None else accounts.on().new_secret(name, body.secret)
        after = _changed(before, body, secret)
        return _taken(after, secret, await accounts.on().change(call, before, after))

    @calls.delete("/v1/users/{name:id}", 400, 403, 404, 409, 501)
    async def delete_user(call: Call, name: UserName) -> Taken:
        """Delete a user with its policies and tokens."""
        user = accounts.on().account(name).user
        return Taken("deleted", await accounts.on().delete(call, user))

    @calls.post("/v1/users/{name:id}:rotate", 400, 403, 404, 409, 413, 415, 501)
    async def rotate_secret(call: Call, name: UserName, body: Rotation | None = None) -> UserTaken:
        """Add a second secret, which is valid beside the first one until a change drops that."""
        user = accounts.on().account(name).user
        secret = accounts.on().new_secret(name, None if body is None else body.secret)
        after, broker = await accounts.on().rotate(call, user, secret)
        return _taken(after, secret, broker)

    return calls.all


def _changed(user: User, body: UserChange, secret: "NewSecret | None") -> User:
    """Return a user with the changes of a body. Raise 400 for changes that contradict each other."""
    if body.never_expires and body.expires_at is not None:
        raise invalid("neverExpires", "give expiresAt or neverExpires: one of the two", "one of the two")
    secrets = user.secrets[-1:] if body.drop_old_secret else user.secrets
    expires_ms = None if body.never_expires else user.expires_ms
    return replace(
        user,
        type=user.type if body.type is None else UserType(body.type),
        status=user.status if body.status is None else UserStatus(body.status),
        secrets=secrets if secret is None else (secret.sealed,),
        expires_ms=expires_ms if body.expires_at is None else round(body.expires_at.timestamp() * 1000),
    )


def _taken(user: User, secret: "NewSecret | None", broker: str) -> UserTaken:
    generated = None if secret is None else secret.generated
    return UserTaken(user_shown(user), None if generated is None else generated.reveal(), broker)
