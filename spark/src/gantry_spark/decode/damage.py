"""A reader's report of bytes that are not a record: a row of the quarantine table, or the end of the read."""

from __future__ import annotations

from typing import Final, NamedTuple

SAMPLE_BYTES: Final = 128
"""Kept bytes of a damaged piece: head, hosts and the beginning of the body."""


class Damaged(NamedTuple):
    """Bytes of the log that become no row, and why. `size` reaches to where reading continued."""

    broker: str
    position: int
    size: int
    why: str
    sample: bytes


class LandedElsewhere(Exception):
    """A piece did not end exactly at its stop: the plan is wrong, or the log was cut or replaced since it was made."""
