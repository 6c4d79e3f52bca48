"""What a real server can do and its fake cannot."""

from __future__ import annotations


class NotFaked(NotImplementedError):
    """A client used a part of a protocol that the fake does not have. The message names it."""
