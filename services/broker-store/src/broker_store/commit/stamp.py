"""Turns a sender's properties into those the broker stores. Pure.

Removes properties that only the store may write, and appends the broker's own. Every path that stores a
sender's properties goes through `Stamp`. Plain properties hold only a unique key and WAIT; they get the
suffix appended.
"""

from collections.abc import Callable

from broker_store.log.commit_log.scan import TORN_BYTES, ZERO_SECTOR
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.messages.properties import (
    CLUSTER,
    GANTRY_DELAY_MS,
    GANTRY_OUTCOME,
    GANTRY_SETTLED,
    MSG_REGION,
    TRACE_ON,
    TRANSIENT_PREFIX,
    UNIQ_KEY,
    WAIT,
    edit_properties,
)
from gantry_wire.private_requests.transactions import BEGUN_PROPERTY

STORE_ONLY = frozenset({GANTRY_SETTLED, GANTRY_OUTCOME, GANTRY_DELAY_MS, BEGUN_PROPERTY})
"""Properties that recovery and the txn-checker trust, because only the store writes them.

They are removed, not refused: consumers send copies of messages that have them.
"""
ADDED = (MSG_REGION, TRACE_ON, CLUSTER)
_ADDED = frozenset(ADDED)
_END = 2
_SEPARATOR = b"\x02"
ZEROS_REMARK = f"the message properties hold {TORN_BYTES} zero bytes in a row: put binary data into the body"


PLAIN_HEAD, PLAIN_TAIL = f"{UNIQ_KEY}\x01".encode(), f"\x02{WAIT}\x01true\x02".encode()
"""Bytes before and behind the unique key in plain properties, which every Java client sets and which hold nothing else."""
KEY_AT, KEY_END = len(PLAIN_HEAD), -len(PLAIN_TAIL)
PLAIN_BYTES_MAX = 256


def plain_unique_key(text: bytes) -> str:
    """Return the unique key of plain properties.

    Empty when they hold more, or when the key has other characters than letters and digits.
    """
    if text.startswith(PLAIN_HEAD) and text.endswith(PLAIN_TAIL) and len(text) <= PLAIN_BYTES_MAX:
        key = text[KEY_AT:KEY_END]
        return key.decode() if key.isalnum() else ""
    return ""


class Stamp:
    """Adds UNIQ_KEY, MSG_REGION, TRACE_ON and CLUSTER where the client sets none."""

    def __init__(
        self, region: str, cluster_name: str, *, trace_on: bool, next_unique_key: Callable[[], str]
    ) -> None:
        self._values = {MSG_REGION: region, TRACE_ON: "true" if trace_on else "false", CLUSTER: cluster_name}
        self._next_unique_key = next_unique_key
        self.suffix = _pairs(self._values)
        """All three, as most messages get them."""

    def finish(self, text: str, properties: dict[str, str]) -> tuple[bytes, str]:
        """Return the bytes to store and the unique key, given the properties as text and parsed.

        Also removes from `properties` what is not stored: the content of a keyed message is compared with
        the log.
        """
        if TRANSIENT_PREFIX in text:
            for name in [name for name in properties if name.startswith(TRANSIENT_PREFIX)]:
                del properties[name]
            text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        return self.finish_bytes(text.encode(), properties)

    def finish_bytes(self, raw: bytes, properties: dict[str, str]) -> tuple[bytes, str]:
        """As `finish`, for the bytes of a batch item. Raises RefusedRequest for content that looks like a torn write."""
        if not STORE_ONLY.isdisjoint(properties):
            raw = edit_properties(raw, {}, STORE_ONLY)
            for name in STORE_ONLY:
                properties.pop(name, None)
        if raw and raw[-1] != _END:
            raw += _SEPARATOR
        if len(raw) > TORN_BYTES and ZERO_SECTOR in raw:
            raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, ZEROS_REMARK)
        unique_key = properties.get(UNIQ_KEY)
        if unique_key is None:
            unique_key = self._next_unique_key()
            raw += _pairs({UNIQ_KEY: unique_key})
        if _ADDED.isdisjoint(properties):
            return raw + self.suffix, unique_key
        return raw + _pairs(
            {name: value for name, value in self._values.items() if name not in properties}
        ), unique_key


def _pairs(properties: dict[str, str]) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
