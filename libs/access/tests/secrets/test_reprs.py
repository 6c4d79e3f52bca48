"""No repr of any type that holds a secret shows it."""

import base64
import importlib
import inspect
import pkgutil
import re
import typing

import pytest

import gantry_access
from gantry_access.entries.token_records import _TokenRecord
from gantry_access.formats.plain_acl import PlainAccount, read_plain_acl
from gantry_access.formats.stored_records import _UserRecord
from gantry_access.formats.user_info import UserChange, UserInfo, read_user_change
from gantry_access.model.resources import Resource
from gantry_access.model.users import User
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import SealingKeys
from gantry_access.signatures.signing_key import SigningKey
from gantry_access.tokens.stored_token import StoredToken
from gantry_access.tokens.token_text import token_hash, token_text

KEY = b"K" * 32
TOKEN = token_text(b"T" * 32)
HOLDERS = {
    HiddenText: lambda: HiddenText("S3CRET"),
    SealingKeys: lambda: SealingKeys({"k1": KEY}, "k1"),
    SigningKey: lambda: SigningKey("S3CRET"),
    User: lambda: User("alice", secrets=("S3CRET",)),
    UserInfo: lambda: UserInfo(username="alice", password="S3CRET"),
    UserChange: lambda: read_user_change(b'{"password":"S3CRET"}', "alice"),
    PlainAccount: lambda: read_plain_acl(
        {"accounts": [{"accessKey": "alice", "secretKey": "S3CRET"}]}
    ).accounts[0],
    _TokenRecord: lambda: _TokenRecord(
        id="t1",
        user="alice",
        hash=base64.b64encode(token_hash(TOKEN)).decode(),
        scope=[],
        created_ms=0,
        expires_ms=1,
    ),
    StoredToken: lambda: StoredToken("t1", "alice", token_hash(TOKEN), (), 0, 1),
}
WITHOUT_SECRETS = {Resource, _UserRecord}
"""A resource has a key, the text of a rule; a record has sealed secrets only."""


def types_of_the_library():
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(gantry_access.__path__, "gantry_access.")
    ]
    return {
        member
        for module in modules
        for _name, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__ and not issubclass(member, Exception)
    }


def test_every_type_with_a_field_of_a_secret_is_tested_here():
    secret = re.compile("secret|password|hash|key")
    names = {
        kind
        for kind in types_of_the_library()
        for name in (*typing.get_type_hints(kind), *getattr(kind, "__slots__", ()))
        if secret.search(name)
    }
    assert names - set(HOLDERS) == WITHOUT_SECRETS


@pytest.mark.parametrize("kind", HOLDERS, ids=lambda kind: kind.__name__)
def test_the_repr_of_a_holder_shows_no_secret(kind):
    shown = repr([HOLDERS[kind]()]) + str(HOLDERS[kind]())
    digest = token_hash(TOKEN)
    texts = repr(digest)[2:-1], digest.hex(), base64.b64encode(digest).decode()
    for secret in ("S3CRET", KEY.decode(), TOKEN.reveal(), *texts):
        assert secret not in shown
