"""JSON bodies read into msgspec Structs; what is wrong with one becomes a problem that names the field. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import msgspec

from gateway.http.problems import Problem, invalid
from gateway.requests.element_limits import LIMITS, refuse_crowded
from gateway.requests.patterns import in_words

T = TypeVar("T")

_PATH = re.compile(r"^(?P<words>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_REQUIRED = re.compile(r"^Object missing required field `(?P<name>.*)`$", re.DOTALL)
_MATCHING = re.compile(r"^Expected `str` matching regex '(?P<pattern>.*)'$", re.DOTALL)
BOUND = re.compile(r"^Expected (?P<kind>`[^`]*`) (?P<limit>(?:of length )?[<>=]=? ?.*)$")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
WORDS_MAX = 300


def read_json(decode: Callable[[bytes], T], body: bytes, limits: Mapping[str, int] = LIMITS) -> T:
    """Decode a body; raise the problem 400 that says which field is wrong, and its limit.

    `limits` says by place how many elements there may be: more are refused before anything is decoded.
    """
    refuse_crowded(body, limits)
    try:
        return _read(decode, body)
    except UnicodeDecodeError as error:
        raise invalid("body", "the body is not UTF-8") from error
    except msgspec.ValidationError as error:
        raise _problem(str(error)) from error
    except msgspec.DecodeError as error:
        raise no_json(error, body) from error
    except RecursionError as error:
        raise invalid("body", "the body is nested too deeply", "nesting depth") from error


def no_json(error: msgspec.DecodeError, body: bytes) -> Problem:
    """Return the problem of a body that cannot be read as JSON."""
    if "truncated" in str(error) and _SURROGATE.search(body):
        return invalid("body", "a text holds half of a surrogate pair, as \\ud800: it is no Unicode text")
    return invalid("body", f"the body is no JSON: {error}")


def _read(decode: Callable[[bytes], T], body: bytes) -> T:
    """Decode; where a number with a point is refused, decode again with 8.0 read as 8: JSON has one kind of number."""
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise
    return decode(msgspec.json.encode(_whole(msgspec.json.decode(body))))


def _whole(value: object) -> object:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_whole(one) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in cast("dict[str, object]", value).items()}
    return value


def _problem(words: str) -> Problem:
    match = _PATH.match(words)
    assert match is not None, "the pattern takes any text"
    words, path = match["words"], match["path"] or ""
    if named := _UNKNOWN.match(words) or _REQUIRED.match(words):
        path = f"{path}.{named['name']}" if path else named["name"]
        words = "no such field" if words.startswith("Object contains") else "the field is missing"
    if pattern := _MATCHING.match(words):
        rule = in_words(pattern["pattern"])
        return invalid(path[:WORDS_MAX], f"the value may have {rule}", rule)
    bound = BOUND.match(words)
    return invalid(
        path[:WORDS_MAX] or "body", words[:WORDS_MAX], bound["limit"].removeprefix("of ") if bound else ""
    )
