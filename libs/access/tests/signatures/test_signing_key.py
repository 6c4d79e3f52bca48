"""One secret signs as HMAC-SHA1 does, whatever its length."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.signatures.signing_key import SigningKey, is_signature


def test_the_golden_value_of_rocketmq():
    assert SigningKey("test").digest(b"test").hex() == "0c94515c15e5095b8a87a50ba0df3bf38ed05fe6"


@given(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=100),
    st.binary(max_size=200),
    st.binary(max_size=200),
)
def test_a_digest_is_hmac_sha1(secret, first, second):
    expected = hmac.new(secret.encode(), first + second, hashlib.sha1).digest()
    assert SigningKey(secret).digest(first, second) == expected


@pytest.mark.parametrize("length", [63, 64, 65])
def test_secrets_around_the_length_of_a_block(length):
    secret = "s" * length
    assert SigningKey(secret).digest(b"x") == hmac.new(secret.encode(), b"x", hashlib.sha1).digest()


def test_an_empty_secret_is_refused():
    with pytest.raises(ValueError, match="empty"):
        SigningKey("")


def test_each_live_secret_is_accepted_and_no_other():
    old, new, other = SigningKey("old-secret"), SigningKey("new-secret"), SigningKey("other")
    for key in (old, new):
        assert is_signature(key.digest(b"data"), [old, new], b"data")
    assert not is_signature(other.digest(b"data"), [old, new], b"data")
    assert not is_signature(old.digest(b"data"), [new], b"data")
    assert not is_signature(old.digest(b"data")[:-1], [old], b"data")


def test_a_user_without_keys_is_never_accepted():
    decoy = SigningKey("the key of users that do not exist")
    assert not is_signature(decoy.digest(b"data"), [], b"data")


def test_no_repr_shows_the_secret():
    assert "12345678" not in repr(SigningKey("12345678"))
