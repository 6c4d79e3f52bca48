"""Validity of a receipt handle. Pure."""

from enum import Enum


class HandleState(Enum):
    """Current state of a receipt handle."""

    HELD = "held"
    """Its lease is valid."""
    FORGOTTEN = "forgotten"
    """The process that gave the lease ended, and the message was not leased again."""
    DONE = "done"
    """The message is done."""
    EXPIRED = "expired"
    """The lease is over and the message is not done."""
