"""Finds a name that stands twice in one object of JSON: which of the two values is meant, nobody knows. Pure.

Codecs keep the last one in silence. Looking for it costs a second reading.
"""

import json
from typing import Any, cast

from gateway.http.problems import Problem, invalid

Pairs = list[tuple[str, Any]]


class _Twice(Exception):
    """Stops the reader at the first object with a name that stands twice."""


class _Object(list[tuple[str, Any]]):
    """An object as it was written; a list in it is a plain list."""


def refuse_twice(body: bytes) -> None:
    """Raise the problem 400 with the path of a name that stands twice in one object. The body is known to be JSON."""
    try:
        _quick(body.decode())
    except _Twice:
        raise _problem(_path(_whole(body.decode()), "")) from None


def _refuse(pairs: Pairs) -> None:
    if len({name for name, _value in pairs}) < len(pairs):
        raise _Twice


_quick = json.JSONDecoder(object_pairs_hook=_refuse, parse_int=str, parse_float=str).decode
_whole = json.JSONDecoder(object_pairs_hook=_Object, parse_int=str, parse_float=str).decode


def _path(value: object, path: str) -> str:
    """Return the path of the first name that stands twice, "" where none does."""
    if isinstance(value, _Object):
        seen: set[str] = set()
        for name, held in value:
            inner = f"{path}.{name}" if path else name
            if name in seen:
                return inner
            seen.add(name)
            if found := _path(held, inner):
                return found
    elif isinstance(value, list):
        for place, held in enumerate(cast("list[object]", value)):
            if found := _path(held, f"{path}[{place}]"):
                return found
    return ""


def _problem(path: str) -> Problem:
    return invalid(path, f"the field {path} stands twice", "once")
