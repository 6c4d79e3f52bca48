"""Finds a name that occurs twice in one JSON object: such a value is ambiguous. Pure.

Codecs silently keep the last one. Finding it needs a second parse.
"""

import json
from typing import Any, cast

from gateway.http.problems import Problem, invalid

Pairs = list[tuple[str, Any]]


class _Twice(Exception):
    """Stops the parser at the first object with a repeated name."""


class _Object(list[tuple[str, Any]]):
    """A JSON object as written; JSON arrays are plain lists."""


def refuse_repeated_names(body: bytes) -> None:
    """Raise the problem 400 with the path of a name that occurs twice in one object. The body must be valid JSON."""
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
    """Return the path of the first repeated name; "" if there is none."""
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
