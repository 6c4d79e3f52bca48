"""The words of `gantrymq access …` that need no system: scopes, ends, changes, entries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gantrymq.cli.commands.access.policies import entry_of
from gantrymq.cli.commands.access.scopes import scope_of, scope_words
from gantrymq.cli.commands.access.tokens import lifetime_of
from gantrymq.cli.commands.access.users import NEVER, change_of, expiry_of

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def test_a_scope_is_actions_and_a_resource() -> None:
    assert scope_of("Pub,Sub Topic:orders") == {"actions": ["Pub", "Sub"], "resource": "Topic:orders"}
    assert scope_of(" Pub   Topic:or* ") == {"actions": ["Pub"], "resource": "Topic:or*"}
    assert scope_words([scope_of("Pub,Sub Topic:a"), scope_of("Get *")]) == "Pub, Sub on Topic:a; Get on *"
    for text in ("", "Pub", "Pub "):
        with pytest.raises(ValueError, match="write ACTIONS RESOURCE"):
            scope_of(text)


def test_the_end_of_a_token_is_seconds_from_now() -> None:
    assert lifetime_of("+30d", NOW) == 30 * 86_400
    assert lifetime_of("2026-11-01T00:01:00Z", NOW) == 60
    for text in ("now", "-1d", "2026-10-31T00:00:00Z"):
        with pytest.raises(ValueError, match="not in the future"):
            lifetime_of(text, NOW)
    with pytest.raises(ValueError, match="at most 366 days"):
        lifetime_of("+367d", NOW)


def test_a_user_ends_at_a_time_or_never() -> None:
    assert expiry_of("never") == NEVER
    assert expiry_of("2026-12-31T00:00:00Z") == "2026-12-31T00:00:00.000Z"
    with pytest.raises(ValueError, match="is not a time"):
        expiry_of("soon")


def test_a_change_of_a_user_holds_what_was_given() -> None:
    assert change_of(None, None, drop_old=False) == {}
    assert change_of(False, "2026-12-31T00:00:00.000Z", drop_old=False) == {
        "status": "disable",
        "expiresAt": "2026-12-31T00:00:00.000Z",
    }
    assert change_of(True, NEVER, drop_old=True) == {
        "status": "enable",
        "neverExpires": True,
        "dropOldSecret": True,
    }


def test_an_entry_has_actions_a_resource_and_networks() -> None:
    assert entry_of("Allow", "Pub, Sub", "Topic:orders", ["10.0.0.0/8"]) == {
        "resource": "Topic:orders",
        "actions": ["Pub", "Sub"],
        "decision": "Allow",
        "networks": ["10.0.0.0/8"],
    }
