"""The stream of a register in JetStream: its name, its configuration, and what is wrong with another one. Pure."""

import string
from collections.abc import Mapping

from broker_store.replication.register.record import RECORD_BYTES_MAX

HISTORY = 64
"""Records that the stream keeps: a lost reply is recognised as long as its record is among them, and an operator reads who led when."""
HEADER_BYTES_MAX = 512
NAME_PREFIX = "GANTRY_REGISTER_"
NAME_CHARS_MAX = 255
"""Of JetStream."""
SUBJECT_PREFIX = "gantry.register."

NEVER = (
    "mirror",
    "sources",
    "subject_transform",
    "republish",
    "sealed",
    "allow_rollup_hdrs",
    "allow_msg_ttl",
    "persist_mode",
)
"""Settings with which records come from elsewhere, go away, or are acknowledged before they are on disk."""
UNSET: tuple[object, ...] = (None, False, "", "default", [])

_PLAIN = frozenset((string.ascii_letters + string.digits + "-_").encode())


def quoted(group: str) -> str:
    """Return a brokerName as a token of NATS: letters, digits, `-` and `_` stay, another byte becomes `=` and two hex digits."""
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in group.encode())


def name_of(group: str) -> str:
    """Return the name of the stream of a broker group. Raises ValueError if it is too long for JetStream."""
    name = NAME_PREFIX + quoted(group)
    if len(name) > NAME_CHARS_MAX:
        raise ValueError(f"the brokerName {group!r} is too long for a register: its stream would be {name}")
    return name


def subject_of(group: str) -> str:
    """Return the one subject of the stream of a broker group."""
    return SUBJECT_PREFIX + quoted(group)


def configuration(group: str, replicas: int) -> dict[str, object]:
    """Return what the stream must be.

    One subject: the expectation of the whole stream's last sequence is checked again when a record is applied, that of a subject's is not
    (nats-server issue 8469). `allow_direct` is off, because with it followers answer reads.
    """
    return {
        "name": name_of(group),
        "subjects": [subject_of(group)],
        "retention": "limits",
        "storage": "file",
        "num_replicas": replicas,
        "discard": "old",
        "max_msgs": HISTORY,
        "max_msgs_per_subject": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msg_size": RECORD_BYTES_MAX + HEADER_BYTES_MAX,
        "deny_delete": True,
        "deny_purge": True,
        "allow_direct": False,
    }


def differences(group: str, replicas: int, found: Mapping[str, object]) -> list[str]:
    """Return, in words, what keeps a stream from being a register: nothing if it can be one."""
    wrong = [
        f"{name} is {found.get(name)!r} and must be {value!r}"
        for name, value in configuration(group, replicas).items()
        if found.get(name, False if value is False else None) != value
    ]
    return wrong + [f"{name} must not be set" for name in NEVER if found.get(name) not in UNSET]
