"""The texts of refusals, as RocketMQ's clients and tools know them (auth, error texts)."""

import pytest
from access_texts import HERE, need, state

from gantry_access.evaluation.refusals import REFUSED_CODE, refusal_text
from gantry_access.evaluation.verdicts import Reason
from gantry_access.model.needs import Inner
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
        (
            state(type=UserType.SUPER),
            [Inner()],
            "User:alice has no permission: only services of Gantry send this request.",
        ),
        (state(), ["of no kind"], "parse authorization context error."),
        (state().without_user("alice"), [PUB], "User:alice not found."),
    ],
)
def test_each_refusal_has_its_text(found, needs, text):
    assert refusal_text(found.decide("alice", needs, HERE, 1), "alice", HERE) == text


def test_what_is_allowed_has_no_text():
    verdict = state(type=UserType.SUPER).decide("alice", [PUB], HERE, 1)
    with pytest.raises(KeyError):
        refusal_text(verdict, "alice", HERE)
    assert verdict.reason is Reason.SUPER_USER


def test_the_code_of_every_refusal():
    assert REFUSED_CODE == 16
