"""The texts of refusals, as RocketMQ's clients and tools know them (auth, error texts)."""

import pytest
from access_texts import HERE, need, state

from gantry_access.evaluation import refusals
from gantry_access.evaluation.refusals import refusal_text
from gantry_access.evaluation.verdicts import Reason
from gantry_access.model.users import UserStatus, UserType

PUB = need("Pub Topic:a")


@pytest.mark.parametrize(
    ("found", "needs", "text"),
    [
        (
            state(),
            [PUB],
            "User:alice has no permission to access Topic:a from 10.0.0.5, no matched policies.",
        ),
        (
            state("Deny Pub *"),
            [PUB],
            "User:alice has no permission to access Topic:a from 10.0.0.5, the decision is deny.",
        ),
        (state(status=UserStatus.DISABLE), [PUB], "User:alice is disabled."),
        (state(expires_ms=0), [PUB], "User:alice has expired."),
        (state(), [], "authorization context is empty."),
        (state().without_user("alice"), [PUB], "User:alice not found."),
    ],
)
def test_each_refusal_has_its_text(found, needs, text):
    assert refusal_text(found.decide("alice", needs, HERE, 1), "alice", HERE) == text


def test_what_is_allowed_has_no_text():
    verdict = state(type=UserType.SUPER).decide("alice", [PUB], HERE, 1)
    with pytest.raises(ValueError, match="was not refused"):
        refusal_text(verdict, "alice", HERE)
    assert verdict.reason is Reason.SUPER_USER


def test_texts_before_a_decision():
    assert refusals.USERNAME_MISSING == "username cannot be null."
    assert refusals.CREDENTIALS_WRONG == "check signature failed."
    assert refusals.AUTHENTICATION_FAILED.startswith("Authentication failed. Please verify the credentials")
    assert refusals.AUTHORIZATION_FAILED.startswith("Authorization failed. Please verify your access rights")
    assert refusals.CONTEXT_UNREADABLE == "parse authorization context error."
    assert refusals.REFUSED_CODE == 16
