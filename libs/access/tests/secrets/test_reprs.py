"""No repr of any type that holds a secret shows it."""

import inspect

import pytest

from gantry_access import secrets, signatures, tokens
from gantry_access.secrets import HiddenText, SealingKeys
from gantry_access.signatures import SigningKey
from gantry_access.tokens import StoredToken, token_hash, token_text

KEY = b"K" * 32
TOKEN = token_text(b"T" * 32)
HOLDERS = {
    HiddenText: lambda: HiddenText("S3CRET"),
    SealingKeys: lambda: SealingKeys({"k1": KEY}, "k1"),
    SigningKey: lambda: SigningKey("S3CRET"),
    StoredToken: lambda: StoredToken("t1", "alice", token_hash(TOKEN), (), 0, 1),
}
WITHOUT_SECRETS = {"Claim", "ScopeEntry", "ScryptCost"}
"""Types that hold nothing secret: what a client sent, names, costs."""


def test_every_type_is_either_tested_here_or_holds_no_secret():
    types = {
        member
        for package in (secrets, signatures, tokens)
        for _name, member in inspect.getmembers(package, inspect.isclass)
        if not issubclass(member, Exception)
    }
    assert {one.__name__ for one in types} == {one.__name__ for one in HOLDERS} | WITHOUT_SECRETS


@pytest.mark.parametrize("kind", HOLDERS, ids=lambda kind: kind.__name__)
def test_the_repr_of_a_holder_shows_no_secret(kind):
    shown = repr([HOLDERS[kind]()]) + str(HOLDERS[kind]())
    digest = token_hash(TOKEN)
    for secret in ("S3CRET", KEY.decode(), TOKEN.reveal(), repr(digest)[2:-1], digest.hex()):
        assert secret not in shown
