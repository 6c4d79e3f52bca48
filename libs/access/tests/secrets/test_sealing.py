"""Sealed secrets open for their user and key only, and every damage is a typed error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.secrets.errors import (
    MalformedSealedSecret,
    SealedByUnknownKey,
    SecretError,
    SecretTampered,
)
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import NONCE_SIZE, SealingKeys

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
NONCE = b"n" * NONCE_SIZE
SECRET = HiddenText("12345678")
KEYS = SealingKeys({"k1": OLD}, "k1")
GOLDEN = "sealed1.k1.bm5ubm5ubm5ubm5u.lmkkXYBqgMeW8GvgPnNO70SQHMP3uieE"


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"), min_size=1, max_size=250))
def test_a_sealed_secret_opens_for_its_user(user, secret):
    assert KEYS.open(user, KEYS.seal(user, HiddenText(secret), NONCE)).reveal() == secret


def test_the_format_stays_readable():
    assert KEYS.seal("alice", SECRET, NONCE) == GOLDEN
    assert KEYS.open("alice", GOLDEN) == SECRET


def test_a_record_moved_to_another_user_does_not_open():
    with pytest.raises(SecretTampered):
        KEYS.open("bob", GOLDEN)


def test_another_key_of_the_same_id_does_not_open_it():
    with pytest.raises(SecretTampered):
        SealingKeys({"k1": NEW}, "k1").open("alice", GOLDEN)


def test_a_rotation_opens_old_secrets_seals_with_the_new_key_and_ends_without_the_old_one():
    both, only_new = SealingKeys({"k1": OLD, "k2": NEW}, "k2"), SealingKeys({"k2": NEW}, "k2")
    assert not both.is_current(GOLDEN)
    sealed = both.seal("alice", both.open("alice", GOLDEN), NONCE)
    assert both.is_current(sealed)
    assert only_new.open("alice", sealed) == SECRET
    with pytest.raises(SealedByUnknownKey, match="k1") as refused:
        only_new.open("alice", GOLDEN)
    assert refused.value.key_id == "k1"


@pytest.mark.parametrize("at", range(len(GOLDEN)))
def test_every_changed_character_is_an_error(at):
    changed = GOLDEN[:at] + ("A" if GOLDEN[at] != "A" else "B") + GOLDEN[at + 1 :]
    with pytest.raises(SecretError):
        KEYS.open("alice", changed)


@pytest.mark.parametrize(
    "sealed",
    [
        "",
        "sealed1",
        "sealed1.k1.bm5u",
        "sealed2." + GOLDEN[8:],
        GOLDEN + "=",
        GOLDEN + ".x",
        "sealed1.k1.bm5u.AAAA",
        "sealed1.k1.ä.ä",
        "sealed1.k 1.x.y",
        "x" * 5000,
    ],
)
def test_what_is_no_sealed_secret_is_malformed(sealed):
    with pytest.raises(MalformedSealedSecret):
        KEYS.open("alice", sealed)


@pytest.mark.parametrize(
    ("keys", "current"), [({}, "k1"), ({"k1": OLD}, "k2"), ({"k1": OLD[:31]}, "k1"), ({"k.1": OLD}, "k.1")]
)
def test_unusable_keys_are_refused_without_showing_them(keys, current):
    with pytest.raises(ValueError, match="key") as refused:
        SealingKeys(keys, current)
    assert repr(OLD[:31])[2:-1] not in str(refused.value)


@pytest.mark.parametrize(
    ("secret", "nonce"), [("", NONCE), ("x" * 1025, NONCE), ("x", b"short"), ("x", NONCE + b"n")]
)
def test_secrets_and_nonces_of_wrong_sizes_are_refused(secret, nonce):
    with pytest.raises(ValueError, match="bytes"):
        KEYS.seal("alice", HiddenText(secret), nonce)
