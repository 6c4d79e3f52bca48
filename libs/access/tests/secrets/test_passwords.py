"""Password hashes: the standard's algorithm, the cost in the text, bounded costs."""

import hashlib

import pytest

from gantry_access.secrets import passwords
from gantry_access.secrets.errors import MalformedPasswordHash
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.passwords import ScryptCost, hash_password, is_password, needs_new_hash

CHEAP = ScryptCost(ln=4, r=8, p=1)
SALT = b"0123456789abcdef"
PASSWORD = HiddenText("correct horse")
STORED = hash_password(PASSWORD, SALT, CHEAP)


def test_a_hash_is_scrypt_with_the_cost_in_the_text():
    digest = hashlib.scrypt(b"correct horse", salt=SALT, n=16, r=8, p=1, dklen=32)
    text = passwords.base64.b64encode(digest).rstrip(b"=").decode()
    assert f"$scrypt$ln=4,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg${text}" == STORED


def test_only_the_password_itself_is_accepted():
    assert is_password(PASSWORD, STORED)
    assert not is_password(HiddenText("correct horse "), STORED)
    assert not is_password(HiddenText(""), STORED)
    assert not is_password(HiddenText("x" * 1025), STORED)


def test_the_default_cost_hashes_and_verifies():
    stored = hash_password(PASSWORD, SALT)
    assert stored.startswith("$scrypt$ln=15,r=8,p=3$")
    assert is_password(PASSWORD, stored)
    assert not needs_new_hash(stored)


def test_a_person_that_does_not_exist_costs_a_hash_and_is_refused(monkeypatch):
    costs = []
    derive = passwords._derive
    monkeypatch.setattr(
        passwords, "_derive", lambda plain, salt, cost: costs.append(cost) or derive(plain, salt, CHEAP)
    )
    assert not is_password(PASSWORD, None)
    assert costs == [ScryptCost()]


def test_an_old_cost_needs_a_new_hash():
    assert needs_new_hash(STORED)
    assert not needs_new_hash(STORED, CHEAP)


def test_two_encodings_of_one_letter_are_one_password():
    assert is_password(HiddenText("ange\u0301"), hash_password(HiddenText("ang\u00e9"), SALT, CHEAP))


@pytest.mark.parametrize(
    "stored",
    [
        "", "secret", STORED[:-2], STORED + "A", STORED.replace("ln=4", "ln=30"), STORED.replace("ln=4", "ln=0"),
        STORED.replace("p=1", "p=17"), STORED.replace("r=8", "r=0"), STORED.replace("MDEyMzQ1Njc4OWFiY2RlZg", "MDEy"),
        STORED.replace("MDEyMzQ1Njc4OWFiY2RlZg", "MDEyM"), STORED.replace("scrypt", "bcrypt"), STORED + "A" * 300,
    ],
)  # fmt: skip
def test_what_is_no_hash_within_the_limits_is_malformed(stored):
    with pytest.raises(MalformedPasswordHash):
        is_password(PASSWORD, stored)


@pytest.mark.parametrize(
    ("password", "salt", "cost"),
    [
        ("", SALT, CHEAP),
        ("x" * 1025, SALT, CHEAP),
        ("x", SALT[:15], CHEAP),
        ("x", SALT, ScryptCost(22, 8, 1)),
    ],
)
def test_unusable_passwords_salts_and_costs_are_refused(password, salt, cost):
    with pytest.raises(ValueError, match=r"bytes|cost"):
        hash_password(HiddenText(password), salt, cost)
