"""Makes of a sender's properties what a broker stores. Pure.

What only the store may write is taken out; what a broker adds comes behind the sender's own bytes. Every way in that stores
a sender's properties goes through `Stamp`. Plain properties are no exception: they hold nothing but a unique key and WAIT, and the
suffix comes behind them.
"""

from collections.abc import Callable

from broker_store.log.scan import TORN_BYTES, ZERO_SECTOR
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.properties import (
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
from gantry_wire.transaction_bodies import BEGUN_PROPERTY

STORE_ONLY = frozenset({GANTRY_SETTLED, GANTRY_OUTCOME, GANTRY_DELAY_MS, BEGUN_PROPERTY})
"""Properties that recovery and the txn-checker believe, because nobody but the store writes them. Consumers send copies of messages
that have them, so they are taken out and not refused."""
ADDED = (MSG_REGION, TRACE_ON, CLUSTER)
_ADDED = frozenset(ADDED)
_END = 2
_SEPARATOR = b"\x02"
ZEROS_REMARK = f"the message properties hold {TORN_BYTES} zero bytes in a row: put binary data into the body"


PLAIN_HEAD, PLAIN_TAIL = f"{UNIQ_KEY}\x01".encode(), f"\x02{WAIT}\x01true\x02".encode()
"""What stands before and behind the unique key in plain properties: those every Java client sets, and no other."""
KEY_AT, KEY_END = len(PLAIN_HEAD), -len(PLAIN_TAIL)
PLAIN_BYTES_MAX = 256


def plain_unique_key(text: bytes) -> str:
    """Return the unique key of plain properties, empty when there is more to them, or to a key that is not letters and digits."""
    if text.startswith(PLAIN_HEAD) and text.endswith(PLAIN_TAIL) and len(text) <= PLAIN_BYTES_MAX:
        key = text[KEY_AT:KEY_END]
        return key.decode() if key.isalnum() else ""
    return ""


class Stamp:
    """Adds UNIQ_KEY, MSG_REGION, TRACE_ON and CLUSTER where the client has none."""

    def __init__(
        self, region: str, cluster_name: str, *, trace_on: bool, next_unique_key: Callable[[], str]
    ) -> None:
        self._values = {MSG_REGION: region, TRACE_ON: "true" if trace_on else "false", CLUSTER: cluster_name}
        self._next_unique_key = next_unique_key
        self.suffix = _pairs(self._values)
        """All three, as most messages get them."""

    def finish(self, text: str, properties: dict[str, str]) -> tuple[bytes, str]:
        """Return the bytes to store and the unique key, for properties that came as `text` and were parsed.

        What is not stored is taken out of `properties` too: the content of a keyed message is compared with what the log holds.
        """
        if TRANSIENT_PREFIX in text:
            for name in [name for name in properties if name.startswith(TRANSIENT_PREFIX)]:
                del properties[name]
            text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        return self.finish_bytes(text.encode(), properties)

    def finish_bytes(self, raw: bytes, properties: dict[str, str]) -> tuple[bytes, str]:
        """As `finish`, for the bytes of a batch item. Raises RefusedRequest for what would look like a torn write."""
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
