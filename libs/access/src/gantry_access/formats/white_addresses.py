"""White addresses of ACL 1.0 (4.9), as networks.

`*`, `*.*.*.*`: from everywhere. `192.168.*.*`, `192.168.1-10.*`: fields from the first `*` or range on. `192.168.1.{1,2}`: the last
field. Lists by comma. IPv6 likewise, with hexadecimal fields. Brackets, ranges and lists do not mix, as in 4.9. Unlike 4.9, a number
behind a range is refused: 4.9 ignores it and so means more addresses than the text.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from gantry_access.errors import MalformedNetwork
from gantry_access.model.networks import SourceNetwork

ANYWHERE = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
RANGE_OR_ANY = "*-"


def parse_white_address(text: str) -> tuple[SourceNetwork, ...] | None:
    """Return the networks of one white address; None if it is everywhere. Raises MalformedNetwork."""
    text = text.strip()
    if text in ANYWHERE:
        return None
    if text.endswith("}"):
        head, bracket, inner = text.removesuffix("}").partition("{")
        if not bracket or not head.endswith((".", ":")):
            raise MalformedNetwork(f"in {text[:64]!r} brackets are not the whole last field")
        return _singles(head + last.strip() for last in inner.split(","))
    if "," in text:
        return _singles(part.strip() for part in text.split(","))
    if any(sign in text for sign in RANGE_OR_ANY):
        return _range(text)
    return _singles([text])


def _singles(texts: Iterable[str]) -> tuple[SourceNetwork, ...]:
    found = tuple(texts)
    for text in found:
        if "/" in text:
            raise MalformedNetwork(f"{text[:64]!r} is not an address of ACL 1.0")
    return tuple(SourceNetwork.parse(text) for text in found)


def _range(text: str) -> tuple[SourceNetwork, ...]:
    """Return the networks between the lowest and the highest address of fields with a range or `*`."""
    is_v6 = ":" in text
    separator, count, base, top = (":", 8, 16, 0xFFFF) if is_v6 else (".", 4, 10, 0xFF)
    fields = _fields(text, separator, count)
    first = next(place for place, field in enumerate(fields) if any(sign in field for sign in RANGE_OR_ANY))
    if first == 0 or any(field != "*" for field in fields[first + 1 :]):
        raise MalformedNetwork(f"{text[:64]!r} has a range in its first field, or more than * behind a range")
    low, high = _bounds(fields[first], base, top)
    heads = [_number(field, base, top) for field in fields[:first]]
    rest = count - first - 1
    kind = ipaddress.IPv6Address if is_v6 else ipaddress.IPv4Address
    lowest, highest = (
        kind(_join([*heads, *ends], top)) for ends in ([low, *[0] * rest], [high, *[top] * rest])
    )
    return tuple(SourceNetwork.of(network) for network in ipaddress.summarize_address_range(lowest, highest))


def _fields(text: str, separator: str, count: int) -> list[str]:
    """Return the fields of an address; `::` stands for as many zeros as are missing."""
    left, gap, right = text.partition("::")
    fields = left.split(separator) if left else []
    if gap:
        behind = right.split(separator) if right else []
        fields += ["0"] * (count - len(fields) - len(behind)) + behind
    if len(fields) != count:
        raise MalformedNetwork(f"{text[:64]!r} has not {count} fields")
    return [field.strip() for field in fields]


def _bounds(field: str, base: int, top: int) -> tuple[int, int]:
    if field == "*":
        return 0, top
    low, _, high = field.partition("-")
    bounds = _number(low, base, top), _number(high, base, top)
    if bounds[0] > bounds[1]:
        raise MalformedNetwork(f"the range {field!r} ends before it begins")
    return bounds


def _number(text: str, base: int, top: int) -> int:
    try:
        number = int(text, base)
    except ValueError as error:
        raise MalformedNetwork(f"{text[:64]!r} is not a field of an address") from error
    if not text.isalnum() or not text.isascii() or not 0 <= number <= top:
        raise MalformedNetwork(f"{text[:64]!r} is not a field of an address")
    return number


def _join(fields: list[int], top: int) -> int:
    value = 0
    for field in fields:
        value = value * (top + 1) + field
    return value
