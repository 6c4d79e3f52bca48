"""Refuses bodies of far too many elements before anything is decoded: millions of tiny ones cost seconds, a scan stops at the limit. Pure.

Only large bodies with many separators are looked at closer; the checks behind the decoders stay, and hold for the rest.
"""

import re
from collections.abc import Mapping

from gateway.http.problems import Problem, invalid
from gateway.requests.limits import (
    CLIENT_PROPERTIES_BYTES_MAX,
    DEFINITIONS_MAX,
    ITEMS_MAX,
    KEYS_MAX,
    MESSAGES_MAX,
    OFFSETS_MAX,
    POLICY_DELAYS_MAX,
    SETTINGS_MAX,
)

VALUES_MAX = 100_000
"""Values and names of one request, nested ones too: a hundred for each of the most messages."""
FREE_BYTES = 256 * 1024
"""Whatever a smaller body holds is decoded in less than a tenth of a second; counting its separators takes 2 µs/KB, which sends would pay."""
FREE_VALUES = 16_384
"""So many are decoded in milliseconds: a body that cannot hold more is not looked at."""
DEPTH_NAMED = 6
"""No list or object with a limit of its own lies deeper."""
DEPTH_MAX = 1024
"""Every decoder here stops before it is so deep, and says where: that much is left to it."""
NAME_BYTES_MAX = 40

_PROPERTIES_MAX = CLIENT_PROPERTIES_BYTES_MAX // len("n\x01v\x02")
LIMITS: Mapping[str, int] = {
    "messages": MESSAGES_MAX,
    "messages[].keys": KEYS_MAX,
    "messages[].properties": _PROPERTIES_MAX,
    "message.keys": KEYS_MAX,
    "message.properties": _PROPERTIES_MAX,
    "acks": ITEMS_MAX,
    "nacks": ITEMS_MAX,
    "extends": ITEMS_MAX,
    "offsets": OFFSETS_MAX,
    "settings": SETTINGS_MAX,
    "topics": DEFINITIONS_MAX,
    "groups": DEFINITIONS_MAX,
    "retryPolicy.delaysMs": POLICY_DELAYS_MAX,
    "groups[].retryPolicy.delaysMs": POLICY_DELAYS_MAX,
}
"""By place, how many elements a list or an object may have."""
EVENT_LIMITS: Mapping[str, int] = {"": MESSAGES_MAX}
"""Those of a batch of CloudEvents: what lies in the events is the client's own."""
FREE_LIMITS: Mapping[str, int] = {}

tokens = re.compile(
    # A text is one token, also one that never ends; possessive, so that nothing is read twice.
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]',
    re.DOTALL,
).finditer
_TEXT, _COMMA = ord('"'), ord(",")
_LIST, _OBJECT = ord("["), ord("{")


class _Open:
    """A list or an object that has begun, and how many commas stood in it; without a place where nothing in it has a limit."""

    __slots__ = ("commas", "is_list", "kind", "limit", "path")

    def __init__(self, kind: str | None, path: str, limit: int, *, is_list: bool) -> None:
        self.kind, self.path, self.limit, self.is_list = kind, path, limit, is_list
        self.commas = 0


def refuse_crowded(body: bytes, limits: Mapping[str, int] = LIMITS) -> None:
    """Raise the problem 400 that names the list or object with too many elements, or the body where all are too many.

    Reads no further than it must, and says nothing of a body that is no JSON.
    """
    if len(body) > FREE_BYTES and _separators(body) > FREE_VALUES:
        _look(body, limits)


def _separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def _look(body: bytes, limits: Mapping[str, int]) -> None:
    opened: list[_Open] = []
    values = 0
    name = (0, 2)
    for token in tokens(body):
        start = token.start()
        sign = body[start]
        if sign == _TEXT:
            name = token.span()
            continue
        if sign == _COMMA:
            if opened:
                here = opened[-1]
                here.commas += 1
                if here.commas >= here.limit:
                    raise _too_many(here)
        elif sign in {_LIST, _OBJECT}:
            if len(opened) >= DEPTH_MAX:
                return
            end = min(name[1] - 1, name[0] + NAME_BYTES_MAX + 2)  # never a copy of a long text
            opened.append(_begin(opened, body[name[0] + 1 : end], limits, is_list=sign == _LIST))
        else:
            if opened:
                opened.pop()
            continue
        values += 1
        if values > VALUES_MAX:
            words = f"the body holds over {VALUES_MAX} values: send fewer in one request"
            raise invalid("body", words, f"{VALUES_MAX} values")


def _begin(opened: list[_Open], name: bytes, limits: Mapping[str, int], *, is_list: bool) -> _Open:
    """Return the list or object that begins inside those opened; `name` is the text before it."""
    kind: str | None = ""
    path = ""
    if opened:
        around = opened[-1]
        kind = None
        if around.kind is not None and len(opened) <= DEPTH_NAMED and len(name) <= NAME_BYTES_MAX:
            shown = name.decode(errors="replace")
            inner, place = ("[]", f"[{around.commas}]") if around.is_list else (f".{shown}", f".{shown}")
            kind = (around.kind + inner).removeprefix(".")
            path = (around.path + place).removeprefix(".")
    limit = VALUES_MAX + 1 if kind is None else limits.get(kind, VALUES_MAX + 1)
    return _Open(kind, path, limit, is_list=is_list)


def _too_many(where: _Open) -> Problem:
    """Return what the check behind the decoder says."""
    if where.path in {"acks", "nacks"}:
        limit = f"1…{ITEMS_MAX}"
        return invalid("acks", f"acks and nacks are over {ITEMS_MAX} together, they may be {limit}", limit)
    if where.path.endswith("properties"):
        limit = f"{CLIENT_PROPERTIES_BYTES_MAX} bytes"
        words = f"tag, keys and properties take over {limit} together, the limit is {limit}"
        return invalid(where.path, words, limit)
    kind = "array" if where.is_list else "object"
    return invalid(where.path or "body", f"Expected `{kind}` of length <= {where.limit}", f"<= {where.limit}")
