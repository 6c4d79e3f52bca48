"""What a reader says of bytes that are no record: a row of the quarantine table, or the end of the reading."""

from __future__ import annotations

from typing import Final, NamedTuple

SAMPLE_BYTES: Final = 128
"""As much of the damaged bytes is kept: head, hosts and the beginning of the body."""


class Damaged(NamedTuple):
    """Bytes of the log that are not given as a row, and why. `size` reaches to where reading went on."""

    broker: str
    position: int
    size: int
    why: str
    sample: bytes


class LandedElsewhere(Exception):
    """A piece did not end exactly at its stop: the plan is wrong, or the log was cut or replaced since it was made."""
