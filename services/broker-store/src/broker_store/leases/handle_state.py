"""What a receipt handle is worth: the answers of a lease table to who comes back with one. Pure."""

from enum import Enum


class HandleState(Enum):
    """What a receipt handle is worth now."""

    HELD = "held"
    """Its lease stands."""
    FORGOTTEN = "forgotten"
    """The lease was lost with the process that gave it, and nobody was given the message since."""
    DONE = "done"
    """The message is done already."""
    EXPIRED = "expired"
    """The lease is over and the message not done."""
