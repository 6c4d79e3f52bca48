"""Tokens have a form that scanners recognise, and every changed letter is found without a lookup."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.tokens.errors import MalformedToken
from gantry_access.tokens.token_text import token_hash, token_text

GOLDEN = token_text(bytes(range(32))).reveal()


@given(st.binary(min_size=32, max_size=32))
def test_every_token_matches_the_pattern_of_scanners_and_is_stored_as_sha_256(random):
    token = token_text(random)
    assert re.fullmatch(r"gantry_[0-9A-Za-z]{49}", token.reveal())
    assert token_hash(token) == hashlib.sha256(token.reveal().encode()).digest()


def test_two_random_values_make_two_tokens():
    assert token_text(bytes(32)) != token_text(bytes(31) + b"\1")


@pytest.mark.parametrize("at", range(len(GOLDEN)))
def test_a_changed_letter_is_malformed(at):
    changed = GOLDEN[:at] + ("x" if GOLDEN[at] != "x" else "y") + GOLDEN[at + 1 :]
    with pytest.raises(MalformedToken):
        token_hash(HiddenText(changed))


@pytest.mark.parametrize(
    "text",
    ["", "gantry_", GOLDEN + "0", GOLDEN[:-1], GOLDEN + "\n", "ghp_" + GOLDEN[7:], "gantry_" + "ä" * 49],
)
def test_other_texts_are_malformed_and_not_shown(text):
    with pytest.raises(MalformedToken) as refused:
        token_hash(HiddenText(text))
    assert str(refused.value) == "the text is not a token"


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_other_sizes_of_randomness_are_refused(size):
    with pytest.raises(ValueError, match="32 random bytes"):
        token_text(bytes(size))
