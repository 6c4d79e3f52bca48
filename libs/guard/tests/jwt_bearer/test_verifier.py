"""A JWT is accepted only with a signature of a published key, by an algorithm of that key, from the issuer, for us, at this time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gantry_guard.jwt_bearer.key_set import KEYS_MAX, SET_BYTES_MAX, KeySet, MalformedKeySet
from gantry_guard.jwt_bearer.verifier import LEEWAY_MS, JwtRefused, JwtRules, JwtVerifier

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
RULES = JwtRules("https://id.example", "gantry", "sub")
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WEAK = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CLAIMS = {
    "iss": "https://id.example",
    "aud": "gantry",
    "sub": "alice",
    "exp": NOW_S + 60,
    "iat": NOW_S,
    "nbf": NOW_S,
}


def jwk(private, kid, **more):
    algorithms = jwt.algorithms
    public = private.public_key()
    if isinstance(private, rsa.RSAPrivateKey):
        made = algorithms.RSAAlgorithm.to_jwk(public)
    elif isinstance(private, ec.EllipticCurvePrivateKey):
        made = algorithms.ECAlgorithm.to_jwk(public)
    else:
        made = algorithms.OKPAlgorithm.to_jwk(public)
    return {**json.loads(made), "kid": kid, **more}


def key_set(*keys):
    return KeySet.parse(json.dumps({"keys": list(keys)}).encode())


ALL = key_set(jwk(RSA, "rsa", use="sig"), jwk(EC, "ec", alg="ES256"), jwk(ED, "ed"))


def verify(token, keys=ALL, rules=RULES, now_ms=NOW_MS):
    return JwtVerifier(rules, SimpleNamespace(keys=keys, version=1)).verify(token, now_ms)


def signed(key=RSA, algorithm="RS256", kid="rsa", headers=None, **claims):
    content = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return jwt.encode(content, key, algorithm, headers={"kid": kid, **(headers or {})} if kid else headers)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [
        (RSA, "RS256", "rsa"),
        (RSA, "PS384", "rsa"),
        (EC, "ES256", "ec"),
        (ED, "EdDSA", "ed"),
        (RSA, "RS512", None),
    ],
)
def test_a_token_of_a_published_key_names_its_user(key, algorithm, kid):
    assert verify(signed(key, algorithm, kid)) == ("alice", (NOW_S + 60) * 1000 + LEEWAY_MS)


def test_the_claim_with_the_user_is_a_setting():
    rules = JwtRules(RULES.issuer, RULES.audience, "preferred_username")
    assert verify(signed(preferred_username="bob"), rules=rules).user == "bob"
    with pytest.raises(JwtRefused, match="preferred_username"):
        verify(signed(), rules=rules)


@pytest.mark.parametrize("user", [None, 7, ["alice"], "", " ", "a\nb", "x" * 256])
def test_a_user_that_is_no_name_is_refused(user):
    with pytest.raises(JwtRefused):
        verify(
            signed(sub=user)
            if user is None or isinstance(user, str)
            else raw({"alg": "RS256", "kid": "rsa"}, CLAIMS | {"sub": user})
        )


def part(value):
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(
        b"="
    )


def raw(header, claims, key=RSA):
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    content = part(header) + b"." + part(claims)
    return (content + b"." + part(key.sign(content, PKCS1v15(), SHA256()))).decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE"])
def test_a_token_without_a_signature_is_refused(algorithm):
    unsigned = (part({"alg": algorithm, "kid": "rsa"}) + b"." + part(CLAIMS) + b".").decode()
    with pytest.raises(JwtRefused):
        verify(unsigned)


@pytest.mark.parametrize("format_", [PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1])
@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
def test_a_public_key_is_no_secret_for_hmac(encoding, format_):
    """The usual confusion of algorithms: the attacker signs with the public key as an HMAC secret."""
    secret = RSA.public_key().public_bytes(encoding, format_)
    for kid in ("rsa", None):
        content = part({"alg": "HS256", "kid": kid} if kid else {"alg": "HS256"}) + b"." + part(CLAIMS)
        forged = (content + b"." + part(hmac.new(secret, content, hashlib.sha256).digest())).decode()
        with pytest.raises(JwtRefused):
            verify(forged)


def test_a_key_verifies_only_the_algorithms_of_its_type_and_the_one_that_it_names():
    only = key_set(jwk(RSA, "rsa", alg="RS256"))
    assert verify(signed(), only).user == "alice"
    with pytest.raises(JwtRefused):
        verify(signed(RSA, "RS512"), only)
    with pytest.raises(JwtRefused):
        verify(signed(EC, "ES256", "rsa"))


def test_keys_inside_a_token_count_for_nothing():
    own = {"jwk": jwk(OTHER, "rsa"), "jku": "https://evil.example/keys", "x5u": "https://evil.example/cert"}
    with pytest.raises(JwtRefused):
        verify(signed(OTHER, "RS256", "rsa", headers=own))


@pytest.mark.parametrize(
    "token",
    [
        signed(OTHER), signed(kid="other"), signed(OTHER, kid=None), signed(iss="https://evil.example"), signed(iss=None),
        signed(aud="another"), signed(aud=["a", "b"]), signed(aud=None), signed(exp=None), signed(exp=NOW_S - 31), signed(nbf=NOW_S + 31),
        signed(iat=NOW_S + 31), signed(headers={"crit": ["exp"]}), signed()[:-4] + "AAAA", signed() + "x" * 9000, "a.b.c", "a.b", "", "é.é.é",
    ],
)  # fmt: skip
def test_any_other_fault_is_refused(token):
    with pytest.raises(JwtRefused) as refused:
        verify(token)
    assert token == "" or token not in str(refused.value)


@pytest.mark.parametrize("value", ["tomorrow", True, [1], {"a": 1}, 1e400, 1e308, -1e308, 10**400])
@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
def test_a_time_that_is_no_number_is_refused(name, value):
    with pytest.raises(JwtRefused):
        verify(raw({"alg": "RS256", "kid": "rsa"}, CLAIMS | {name: value}))


def test_clocks_may_differ_by_half_a_minute():
    assert verify(signed(exp=NOW_S - 29)).user == "alice"
    assert verify(signed(nbf=NOW_S + 29, iat=NOW_S + 29)).user == "alice"
    assert verify(signed(aud=["other", "gantry"])).user == "alice"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b'{"keys":7}', b'{"keys":[]}', b"[" * 5000, b" " * (SET_BYTES_MAX + 1),
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0"}] * (KEYS_MAX + 1)}).encode(),
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}).encode(),
        json.dumps({"keys": [jwk(WEAK, "weak")]}).encode(),
        json.dumps({"keys": [jwk(RSA, "enc", use="enc")]}).encode(),
        json.dumps({"keys": [jwk(RSA, "x", alg="HS256")]}).encode(),
        json.dumps({"keys": [{"kty": "RSA", "n": "!", "e": "AQAB"}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}).encode(),
    ],
)  # fmt: skip
def test_a_set_without_a_key_for_signatures_is_refused(data):
    with pytest.raises(MalformedKeySet) as refused:
        KeySet.parse(data)
    assert "c2VjcmV0" not in str(refused.value)


def test_keys_that_are_not_ours_are_left_out_of_a_set():
    assert len(key_set({"kty": "oct", "k": "c2VjcmV0"}, {"kty": "new"}, jwk(RSA, "rsa"))) == 1
    assert len(ALL) == 3


def test_a_published_private_key_is_read_as_the_public_one():
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA))
    assert "d" in private
    (found,) = list(key_set(private).candidates(None, "RS256"))
    assert isinstance(found.key, rsa.RSAPublicKey)
