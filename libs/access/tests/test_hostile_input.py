"""Whatever a stranger or a damaged record contains, each reader returns a value or raises its documented error, and shows no secret."""

import json
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gantry_access.errors import AccessError
from gantry_access.formats.acl_info import read_acl
from gantry_access.formats.plain_acl import PlainAcl, read_plain_acl
from gantry_access.formats.refused_change import RefusedChange
from gantry_access.formats.stored_records import decode_policies, decode_user
from gantry_access.formats.user_info import UserChange, read_user_change
from gantry_access.model.resources import Resource
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.grpc_table import METHODS, GrpcAsked, requirements_of_method
from gantry_access.rights.http_table import GATEWAY, requirements_of_route
from gantry_access.rights.request_table import REQUESTS, requirements_of_request
from gantry_access.secrets.errors import MalformedPasswordHash, SecretError, SecretTampered
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.passwords import ScryptCost, hash_password, is_password, needs_new_hash
from gantry_access.secrets.sealing import SealingKeys
from gantry_access.signatures.errors import AuthenticationRefused
from gantry_access.signatures.grpc_header import is_fresh, read_authorization
from gantry_access.signatures.remoting import claimed_user, is_signed
from gantry_access.signatures.signing_key import SigningKey
from gantry_access.tokens.errors import MalformedToken
from gantry_access.tokens.token_text import token_hash
from gantry_wire.errors import MalformedBody, WireError

KEY = SigningKey("12345678")
SEALING = SealingKeys({"k1": bytes(32)}, "k1")
HUGE = "x" * 1_000_000
LETTERS = st.text(st.characters(exclude_categories=()), max_size=40)  # with halves of surrogate pairs
TEXTS = LETTERS | st.sampled_from(["\ud800", "*", "%RETRY%", "%RETRY%g", "GANTRY_SYS_X", "\0", " ", HUGE])
NAMES = st.sampled_from(
    [
        "topic",
        "b",
        "consumerGroup",
        "group",
        "gantryBrowse",
        "topicList",
        "clusterName",
        "AccessKey",
        "Signature",
    ]
)
FIELDS = st.dictionaries(NAMES | LETTERS, TEXTS, max_size=6)
KEYS = ["username", "password", "userType", "subject", "policies", "entries", "resource", "actions", "sourceIps", "decision",
    "topic", "topics", "group", "groups", "offsets", "toTopic", "consumerDataSet", "groupName", "topicConfigList", "mqSet"]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | LETTERS, inner, max_size=4)
    ),
    max_leaves=8,
)


def outcome(refusal, read, *what):
    """What `read` returns, or the text of its refusal."""
    try:
        return read(*what)
    except refusal as error:
        return str(error)


def as_json(value):
    return json.dumps(value).encode(errors="surrogatepass")


BODIES = st.binary(max_size=60) | VALUES.map(as_json) | st.sampled_from([b"[" * 100_000, b'{"a":' * 5_000])


@given(
    TEXTS
    | st.lists(
        st.sampled_from(["Credential=", "Signature=", "=", ",", " ", "MQv2", "ff", "\ud800", "a/b"])
    ).map("".join),
    TEXTS,
)
def test_an_authorization_header(header, date):
    assert isinstance(is_fresh(date, 1_700_000_000.0), bool)
    try:
        claim = read_authorization(header, date)
    except AuthenticationRefused:
        return
    assert claim.user


@given(FIELDS, st.binary(max_size=40))
def test_remoting_fields(fields, body):
    assert not is_signed(fields, body, [KEY])
    try:
        assert claimed_user(fields) == fields["AccessKey"]
    except AuthenticationRefused:
        assert not fields.get("AccessKey", "").strip()


@given(TEXTS | LETTERS.map("gantry_".__add__))
def test_a_token(text):
    with pytest.raises(MalformedToken):
        token_hash(HiddenText(text))


@given(TEXTS, TEXTS | LETTERS.map("sealed1.k1.bm5ubm5ubm5ubm5u.".__add__))
def test_a_sealed_secret(user, sealed):
    with pytest.raises(SecretError):
        SEALING.open(user, sealed)


@given(LETTERS, LETTERS.filter(bool))
def test_every_text_is_sealed_and_opened_and_two_texts_differ(user, secret):
    sealed = SEALING.seal(user, HiddenText(secret), bytes(12))
    assert SEALING.open(user, sealed).reveal() == secret
    with pytest.raises(SecretTampered):
        SEALING.open(user + "x", sealed)
    assert HiddenText("\ud800") != HiddenText("?")
    assert SigningKey(secret).digest(b"x") == SigningKey(secret).digest(b"x")


def test_half_a_surrogate_pair_is_no_question_mark_in_a_password():
    stored = hash_password(HiddenText("a?"), bytes(16), ScryptCost(4, 8, 1))
    assert not is_password(HiddenText("a\ud800"), stored)


@given(TEXTS | LETTERS.map("$scrypt$ln=4,r=8,p=1$".__add__))
def test_a_password_hash(stored):
    with pytest.raises(MalformedPasswordHash):
        needs_new_hash(stored)


@given(TEXTS)
def test_a_resource(text):
    for make in (Resource.parse, Resource.topic, Resource.group, Resource.cluster):
        found = outcome(AccessError, make, text)
        assert found.text.isprintable() if isinstance(found, Resource) else len(found) < 500


@given(BODIES, TEXTS)
@example(b'{"password":"S3CRET","userType":{"S3CRET":1}}', "alice")
@example(b'{"password":"S3CRET", x}', "alice")
def test_admin_bodies(body, name):
    for read in (read_user_change, read_acl):
        found = outcome(RefusedChange, read, body, name)
        assert not isinstance(found, UserChange) or name.isprintable()
        if isinstance(found, str):
            assert "S3CRET" not in found
            assert len(found.encode()) < 2_000  # it can be written, whatever the name contains


@given(BODIES)
def test_stored_records(data):
    for decode in (decode_user, decode_policies):
        with pytest.raises(AccessError):
            decode(data)


ACCOUNT = st.dictionaries(
    st.sampled_from(["accessKey", "secretKey", "admin", "topicPerms", "groupPerms", "defaultTopicPerm", "whiteRemoteAddress"]),
    VALUES | st.lists(st.sampled_from(["t=PUB", "%RETRY%=SUB", "g=DENY", "=", "*=PUB"])) | st.sampled_from(["10.0.*.*", "1::{2,3}", "1-2-3.*", "*"]),
)  # fmt: skip


@given(
    VALUES
    | st.fixed_dictionaries({"accounts": st.lists(VALUES | ACCOUNT), "globalWhiteRemoteAddresses": VALUES})
)
def test_plain_acl(content):
    assert isinstance(read_plain_acl(content), PlainAcl)


def test_aliases_in_plain_acl_stay_small():
    nested = "x"
    for _ in range(100):  # written out, this has 2¹⁰⁰ texts
        nested = [nested, nested]
    account = {"accessKey": nested, "secretKey": nested, "topicPerms": [nested], "admin": nested}
    found = read_plain_acl(
        {
            "accounts": [account, {**account, "accessKey": "a", "secretKey": "S3CRET"}],
            "globalWhiteRemoteAddresses": nested,
        }
    )
    assert len(found.unreadable) == 2
    assert len(str(found)) < 1_000
    assert "S3CRET" not in str(found)


@given(st.sampled_from(sorted(REQUESTS)) | st.integers(), FIELDS, BODIES)
def test_the_rights_of_a_request(code, fields, body):
    with suppress(RightsRefused, WireError):
        assert requirements_of_request(code, Asked(fields, body, "c1"))


@given(st.sampled_from(sorted(GATEWAY)), FIELDS, BODIES)
def test_the_rights_of_a_route(route, fields, body):
    with suppress(RightsRefused, MalformedBody):
        assert requirements_of_route(GATEWAY, *route, Asked(fields, body, "c1"))


@given(st.sampled_from(sorted(METHODS)), st.lists(TEXTS, max_size=3), TEXTS, st.integers(0, 6))
def test_the_rights_of_a_call(method, topics, group, client_type):
    with suppress(RightsRefused):
        assert requirements_of_method(method, GrpcAsked(tuple(topics), group, client_type, "subscription"))
