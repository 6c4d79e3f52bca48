"""The record of a broker group in the register: who leads, and which replicas are in sync. A few writes per failure, none per message."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Registered:
    """One record. The newest one is the truth about the group."""

    version: int
    """Its place in the register: the first record has 1, each next one is one higher."""
    group: str
    epoch: int
    """Grows with each takeover. An epoch has one leader."""
    leader: str
    members: tuple[str, ...]
    """The in-sync set, the leader included. A name belongs to one directory: a replica with a new directory gets a new name."""
    boots: int
    """Counts takeovers. Claims of a store carry it."""
    nonce: str
    """Recognizes an own write whose reply was lost."""
