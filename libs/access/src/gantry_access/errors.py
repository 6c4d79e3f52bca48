"""Errors of this package. Each says what is wrong with a text or a record; none is about a refused request."""

from __future__ import annotations


class AccessError(Exception):
    """A user, a policy or a part of one is not legal. The message names the value and the rule."""


class MalformedResource(AccessError):
    """A text is not `*`, `Type:*`, `Type:prefix*` or `Type:name`."""


class UnknownAction(AccessError):
    """A text names no action."""


class AnyAction(AccessError):
    """A policy names the action `Any`, which RocketMQ refuses in policies."""


class MalformedNetwork(AccessError):
    """A text is neither an IP address nor a network in CIDR form."""


class MalformedSubject(AccessError):
    """A text is not `User:<name>`."""


class IllegalUser(AccessError):
    """A user's name, type, status or secrets break a rule."""


class IllegalPolicy(AccessError):
    """A policy entry has no action, an unknown decision or type, or a subject has too many entries."""


class UnknownUser(AccessError):
    """Policies name a user that does not exist."""


class InnerUser(AccessError):
    """A change is about one of Gantry's own services, whose users only the configuration makes."""


class UnreadableRecord(AccessError):
    """A stored user or policy is damaged. The record changes nothing; report it."""


class UnknownRecordVersion(UnreadableRecord):
    """A stored user or policy was written by a later version. Update this process before it decides anything."""
