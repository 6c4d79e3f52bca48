"""A token is accepted by its hash until its end."""

import dataclasses

import pytest

from gantry_access.model.actions import Action
from gantry_access.model.resources import Resource
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.tokens.errors import MalformedToken, TokenExpired, TokenUnknown
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.stored_token import StoredToken, verify_token
from gantry_access.tokens.token_text import token_hash, token_text

TOKEN, OTHER = token_text(b"a" * 32), token_text(b"b" * 32)
SCOPE = (ScopeEntry(Resource.topic("orders"), Action.PUB),)
STORED = StoredToken("t1", "alice", token_hash(TOKEN), SCOPE, created_ms=1000, expires_ms=2000)


def test_a_token_is_accepted_until_its_end():
    assert verify_token(TOKEN, STORED, 1999) is STORED
    with pytest.raises(TokenExpired, match="t1"):
        verify_token(TOKEN, STORED, 2000)


def test_another_or_a_revoked_token_is_unknown():
    with pytest.raises(TokenUnknown):
        verify_token(OTHER, STORED, 1500)
    with pytest.raises(TokenUnknown):
        verify_token(TOKEN, None, 1500)


def test_a_text_that_is_no_token_is_malformed_even_if_nothing_is_stored():
    with pytest.raises(MalformedToken):
        verify_token(HiddenText("secret"), None, 1500)


@pytest.mark.parametrize("change", [{"hash": b"short"}, {"expires_ms": 1000}])
def test_a_token_that_could_never_be_accepted_is_refused(change):
    with pytest.raises(ValueError, match="token 't1'"):
        dataclasses.replace(STORED, **change)
