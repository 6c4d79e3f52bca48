"""Tokens as records."""

import json

import pytest

from gantry_access.entries.token_records import decode_token, encode_token
from gantry_access.errors import UnknownRecordVersion, UnreadableRecord
from gantry_access.model.actions import Action
from gantry_access.model.resources import Resource
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.stored_token import StoredToken

TOKEN = StoredToken(
    "t1", "alice", bytes(range(32)), (ScopeEntry(Resource.parse("Topic:a*"), Action.PUB | Action.GET),), 5, 9
)


def test_a_token_is_read_as_it_was_written_and_its_hash_is_base64():
    record = json.loads(encode_token(TOKEN))
    assert decode_token(encode_token(TOKEN)) == TOKEN
    assert record["hash"] == "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    assert record["scope"] == [{"resource": "Topic:a*", "actions": ["Pub", "Get"]}]


@pytest.mark.parametrize(
    "change",
    [{"hash": "AA=="}, {"hash": "*"}, {"user": " "}, {"scope": [{"resource": "x", "actions": ["Pub"]}]}, {"expiresMs": 5},
     {"scope": [{"resource": "*", "actions": ["Fly"]}]}, {"more": 1}, {"id": None}],
)  # fmt: skip
def test_a_token_with_a_fault_is_unreadable(change):
    with pytest.raises(UnreadableRecord):
        decode_token(json.dumps({**json.loads(encode_token(TOKEN)), **change}).encode())


def test_a_later_form_is_refused_by_its_number():
    with pytest.raises(UnknownRecordVersion):
        decode_token(b'{"v":2}')
