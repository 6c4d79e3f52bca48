"""Refuses bodies with too many elements before decoding: decoding millions of tiny ones takes seconds, a scan stops at the limit. Pure.

Only large bodies with many separators are scanned. The checks behind the decoders cover the rest.
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
"""Values and names of one request, including nested ones: a hundred per message of the largest batch."""
FREE_BYTES = 256 * 1024
"""Smaller bodies decode in less than 0.1 s. Counting their separators would cost sends 2 µs/KB."""
FREE_VALUES = 16_384
"""This many elements decode in milliseconds: a body that cannot hold more is not scanned."""
DEPTH_NAMED = 6
"""No list or object with its own limit is nested deeper."""
DEPTH_MAX = 1024
"""Every decoder stops at a smaller depth and reports the place, so deeper nesting is left to the decoder."""
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
"""Element limits of lists and objects, by place."""
EVENT_LIMITS: Mapping[str, int] = {"": MESSAGES_MAX}
"""Element limits of a batch of CloudEvents; the contents of an event belong to the client."""
FREE_LIMITS: Mapping[str, int] = {}

tokens = re.compile(
    # An unterminated text is one token too. Possessive, so that no byte is read twice.
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]',
    re.DOTALL,
).finditer
_TEXT, _COMMA = ord('"'), ord(",")
_LIST, _OBJECT = ord("["), ord("{")


class _Open:
    """An open list or object and its number of commas. Has no place if nothing inside it has a limit."""

    __slots__ = ("commas", "is_list", "kind", "limit", "path")

    def __init__(self, kind: str | None, path: str, limit: int, *, is_list: bool) -> None:
        self.kind, self.path, self.limit, self.is_list = kind, path, limit, is_list
        self.commas = 0


def refuse_too_many_elements(body: bytes, limits: Mapping[str, int] = LIMITS) -> None:
    """Raise the problem 400 that names the list or object with too many elements, or the body if its total is too high.

    Stops as early as possible, and ignores a body that is not JSON.
    """
    if len(body) > FREE_BYTES and _separators(body) > FREE_VALUES:
        _scan(body, limits)


def _separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def _scan(body: bytes, limits: Mapping[str, int]) -> None:
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
            end = min(name[1] - 1, name[0] + NAME_BYTES_MAX + 2)  # never copies a long text
            opened.append(_begin(opened, body[name[0] + 1 : end], limits, is_list=sign == _LIST))
        else:
            if opened:
                opened.pop()
            continue
        values += 1
        if values > VALUES_MAX:
            detail = f"the body holds over {VALUES_MAX} values: send fewer in one request"
            raise invalid("body", detail, f"{VALUES_MAX} values")


def _begin(opened: list[_Open], name: bytes, limits: Mapping[str, int], *, is_list: bool) -> _Open:
    """Return the list or object that opens inside the open ones; `name` is the text before it."""
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
    """Return the problem that the check behind the decoder would raise."""
    if where.path in {"acks", "nacks"}:
        limit = f"1…{ITEMS_MAX}"
        return invalid("acks", f"acks and nacks are over {ITEMS_MAX} together, they may be {limit}", limit)
    if where.path.endswith("properties"):
        limit = f"{CLIENT_PROPERTIES_BYTES_MAX} bytes"
        detail = f"tag, keys and properties take over {limit} together, the limit is {limit}"
        return invalid(where.path, detail, limit)
    kind = "array" if where.is_list else "object"
    return invalid(where.path or "body", f"Expected `{kind}` of length <= {where.limit}", f"<= {where.limit}")
