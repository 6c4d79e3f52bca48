"""The answer to a request, with its one reason."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from gantry_access.evaluation.rules import Rule
from gantry_access.model.needs import Requirement


class Reason(Enum):
    """Why a request is allowed or refused. Checked in this order; the values are labels of counters and the audit log."""

    UNKNOWN_USER = "unknown_user"
    USER_DISABLED = "user_disabled"
    USER_EXPIRED = "user_expired"
    NO_NEEDS = "no_needs"
    """The request named nothing that it needs. RocketMQ up to 5.5.0 allows it."""
    NOT_INNER = "not_inner"
    """Only Gantry's own services may send the request. Also for a Super user."""
    UNKNOWN_REQUIREMENT = "unknown_requirement"
    """The request requires something of a kind that the decision does not know. For every user."""
    SUPER_USER = "super_user"
    INNER_USER = "inner_user"
    DENIED = "denied"
    """A Deny entry decided about a need."""
    NO_MATCH = "no_match"
    """No entry matches a need."""
    ALLOWED = "allowed"
    """Allow entries decided about every need."""


ALLOWED, SUPER_USER, INNER_USER = Reason.ALLOWED, Reason.SUPER_USER, Reason.INNER_USER
"""Bound once: before Python 3.12 a member costs more to look up in its class than a rule to find."""


class Verdict(NamedTuple):
    """The decision about one request."""

    reason: Reason
    rules: tuple[Rule, ...] = ()
    """The rule that decided each need, in the order of the needs (any user and open have none), up to the first that is refused."""
    refused: Requirement | None = None
    """The requirement that was denied, not matched or not known."""

    @property
    def is_allowed(self) -> bool:
        """Whether the request may be executed."""
        return self.reason is ALLOWED or self.reason is SUPER_USER or self.reason is INNER_USER

    @property
    def deciding(self) -> Rule | None:
        """The rule behind the verdict: the Deny entry, or the entry that allowed the first need. None if there is none."""
        if self.reason is Reason.NO_MATCH or not self.rules:
            return None
        return self.rules[-1] if self.reason is Reason.DENIED else self.rules[0]
