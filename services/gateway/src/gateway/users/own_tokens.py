"""What a user may do with its own tokens: never more than the credentials of the call may. Pure.

A stolen token must not become a wider or a longer one, nor end the others of its user.
"""

import hashlib
from collections.abc import Iterable

from gantry_access.entries.entry import Key, Kind
from gantry_access.entries.table import AccessTable
from gantry_access.model.actions import Action
from gantry_access.model.resources import EVERYTHING
from gantry_access.tokens.scope import ScopeEntry, is_within
from gantry_access.tokens.stored_token import StoredToken
from gantry_guard.http_callers import Caller
from gateway.http.problems import Problem, forbidden

OWN_TOKENS_MAX = 100
"""Tokens that a user has made for itself and that have not ended."""
WHOLE_SCOPE = (ScopeEntry(EVERYTHING, Action.ALL),)
"""Of a token with all rights of its user."""
_USER_HEX_DIGITS = 14


def own_scope(caller: Caller, wanted: tuple[ScopeEntry, ...] | None) -> tuple[ScopeEntry, ...]:
    """Return the scope of a token that a caller makes for itself; without a wanted one, that of the caller. Raise 403 for a wider one."""
    if caller.scope is None:
        return WHOLE_SCOPE if wanted is None else wanted
    if wanted is None:
        return caller.scope
    if not is_within(wanted, caller.scope):
        raise forbidden("a token makes only tokens inside of its own scope", "scope")
    return wanted


def own_end(caller: Caller, wanted_ms: int) -> int:
    """Return when a token ends that a caller makes for itself: not after the credentials of the call."""
    return wanted_ms if caller.ends_ms is None else min(wanted_ms, caller.ends_ms)


def reaches(caller: Caller, token: StoredToken) -> bool:
    """Whether a caller may see and revoke a token as its own: one of its user, inside of the caller's scope, or the one that it sends."""
    if token.user != caller.user:
        return False
    return caller.scope is None or token.id == caller.token_id or is_within(token.scope, caller.scope)


def own_token_id(table: AccessTable, user: str, now_ms: int, start: int) -> str:
    """Return the id of a token that a user makes for itself. Raise 409 if all of its ids are those of tokens that have not ended.

    A user has a fixed number of ids, and one that became free is used again: stores keep the entry of every id for a year, and a user
    without rights must not fill them. The id that was free for longest is taken; `start`, which is random, makes two gateways that
    choose at one time choose different ones.
    """
    tokens = {one.id: one for one in table.tokens()}
    free: list[tuple[int, int, str]] = []
    for place, token_id in enumerate(_ids(user)):
        entry, token = table.find(Key(Kind.TOKEN, token_id)), tokens.get(token_id)
        if token is None or (token.user == user and token.expires_ms <= now_ms):
            free.append((0 if entry is None else entry.stamp_ms, (place - start) % OWN_TOKENS_MAX, token_id))
    if not free:
        detail = f"user {user} has made {OWN_TOKENS_MAX} tokens that have not ended: revoke one"
        raise Problem(409, "TOO_MANY_TOKENS", detail, field="user")
    return min(free)[2]


def _ids(user: str) -> Iterable[str]:
    begin = hashlib.sha256(user.encode()).hexdigest()[:_USER_HEX_DIGITS]
    return (f"{begin}{place:02x}" for place in range(OWN_TOKENS_MAX))
