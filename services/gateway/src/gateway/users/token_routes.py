"""Tokens of users: list, create, revoke."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gateway.http.call import Call
from gateway.requests.fields import ID_PATTERN
from gateway.requests.operations import Details, Operation, Operations
from gateway.users.schemas import NewToken, Taken, TokensShown, TokenTaken
from gateway.users.shown import page_of, scope_of, token_shown
from gateway.users.switch import Switch
from gateway.users.user_routes import LIST_DEFAULT, After, PageMax

TokenId = Annotated[str, Meta(pattern=ID_PATTERN, max_length=255, description="Id of the token.")]
OwnerOrAll = Annotated[
    str,
    Meta(
        max_length=255,
        description="Only tokens of this user; empty: all. Those of others need Get on the cluster.",
    ),
]
_MADE = Details(
    body_example={
        "user": "alice",
        "scope": [{"resource": "Topic:orders", "actions": ["Pub"]}],
        "expiresInSeconds": 86400,
    },
    reply_description="The token; its text is shown only here.",
)

if TYPE_CHECKING:
    from gateway.users.accounts import Accounts


def token_routes(accounts: "Switch[Accounts]") -> list[Operation]:
    """Return the routes."""
    calls = Operations("users")

    @calls.get("/v1/tokens", 400, 403, 404)
    async def list_tokens(
        call: Call, user: OwnerOrAll = "", max_: PageMax = LIST_DEFAULT, after: After = ""
    ) -> TokensShown:
        """List tokens by id."""
        found = [(one.id, one) for one in accounts.on().tokens(call, user)]
        tokens, more = page_of(found, after, max_)
        return TokensShown([token_shown(one) for one in tokens], more)

    @calls.post("/v1/tokens", 400, 403, 404, 409, 413, 415, 501, details=_MADE)
    async def create_token(call: Call, body: NewToken) -> TokenTaken:
        """Create a token of a user."""
        found = accounts.on()
        scope = None if body.scope is None else scope_of(body.scope)
        text, token, broker = await found.create_token(call, body.user, scope, body.expires_in_seconds)
        return TokenTaken(text.reveal(), token_shown(token), broker)

    @calls.delete("/v1/tokens/{id}", 400, 403, 404, 409, 501)
    async def delete_token(call: Call, id_: TokenId) -> Taken:
        """Revoke a token."""
        return Taken("deleted", await accounts.on().delete_token(call, id_))

    return calls.all
