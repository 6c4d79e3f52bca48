"""The record of a register: who leads a broker group since which version, and which stores are its in-sync set. Pure.

Stored as JSON, so that an operator can read it with the tools of NATS.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

NAME_CHARS_MAX = 127
"""Of a group (a brokerName), and of a store of it."""
MEMBERS_MAX = 9
"""More stores of one group make each acknowledgement slower and lose no fewer machines."""
NONCE_CHARS_MAX = 64
COUNT_MAX = (1 << 63) - 1
RECORD_BYTES_MAX = 4096

Count = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"^[%|a-zA-Z0-9_.:@-]+$")]
Group = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
"""Any brokerName that the settings allow."""
Nonce = Annotated[str, Meta(min_length=1, max_length=NONCE_CHARS_MAX, pattern=r"^[a-zA-Z0-9_-]+$")]
Members = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MEMBERS_MAX)]

FIELDS_CHARS_MAX = 7 * 20 + 3 * 24
"""Names, signs and numbers of the fields."""
GROUP_BYTES_MAX = 6 * NAME_CHARS_MAX
"""JSON writes a control character as six bytes, other characters as four at most."""
assert (
    GROUP_BYTES_MAX + (MEMBERS_MAX + 1) * (NAME_CHARS_MAX + 3) + 2 * NONCE_CHARS_MAX + FIELDS_CHARS_MAX
    <= RECORD_BYTES_MAX
)


class MalformedRecord(ValueError):
    """A stored record has another form, or breaks a bound. No version of Gantry wrote it."""


class Registered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a register says of a broker group. Only records that were written have a meaning: `version` is their place."""

    version: Count
    """The place in the register, one higher with each record. Of two records the higher version is the newer one."""
    group: Group
    """The brokerName."""
    epoch: Count
    """One higher with each leader; a change of the set keeps it."""
    leader: Name
    members: Members
    """The in-sync set, the leader included: each of them has all that was acknowledged."""
    boots: Count
    """One higher with each start of a leader. Claims count from it."""
    nonce: Nonce
    """Chosen by the writer for this one write: it recognises its own record when the reply was lost."""
    origin: Nonce
    """The nonce of the first record, which all later ones carry: a brokerName of another cluster, or an earlier one, names another group."""

    def __post_init__(self) -> None:
        """Raise ValueError if the leader is not in the set, or a member is listed twice."""
        if self.leader not in self.members:
            raise ValueError(f"the leader {self.leader} is not among the members")
        if len(set(self.members)) != len(self.members):
            raise ValueError("a member is listed twice")


_decoder = msgspec.json.Decoder(Registered)
_encoder = msgspec.json.Encoder()


def encode(record: Registered) -> bytes:
    """Return the stored form. Raises ValueError if a field breaks its bound, as the constructor checks no types."""
    stored = _encoder.encode(record)
    try:
        decode(stored)
    except MalformedRecord as error:
        raise ValueError(str(error)) from error
    return stored


def decode(stored: bytes) -> Registered:
    """Return the record of a stored form. Raises MalformedRecord."""
    if len(stored) > RECORD_BYTES_MAX:
        raise MalformedRecord(f"{len(stored)} bytes are more than {RECORD_BYTES_MAX}")
    try:
        return _decoder.decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedRecord(str(error)) from error
