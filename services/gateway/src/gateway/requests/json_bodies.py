"""Decodes JSON bodies and parameters into msgspec Structs; an error becomes a problem that names the field and its limit. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from gateway.http.problems import Problem, invalid
from gateway.requests.element_limits import LIMITS, refuse_too_many_elements
from gateway.requests.patterns import pattern_text

T = TypeVar("T")
Schema = dict[str, Any]

_PATH = re.compile(r"^(?P<message>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_REQUIRED = re.compile(r"^Object missing required field `(?P<name>.*)`$", re.DOTALL)
_MATCHING = re.compile(r"^Expected `str` matching regex '(?P<pattern>.*)'$", re.DOTALL)
_CHOICE = re.compile(r"^Invalid (?:enum )?value ")
_STEP = re.compile(r"(?<![\[\w])\w+|\[")
BOUND = re.compile(r"^Expected (?P<kind>`[^`]*`) (?P<limit>(?:of length )?[<>=]=? ?.*)$")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
DETAIL_CHARS_MAX = 300


def read_json(decoder: msgspec.json.Decoder[T], body: bytes, limits: Mapping[str, int] = LIMITS) -> T:
    """Decode a body; raise the problem 400 that names the invalid field and its limit.

    `limits` gives the maximum number of elements by place; more are refused before decoding.
    """
    refuse_too_many_elements(body, limits)
    try:
        return _read(decoder.decode, body)
    except UnicodeDecodeError as error:
        raise invalid("body", "the body is not UTF-8") from error
    except msgspec.ValidationError as error:
        raise _problem(str(error), decoder.type) from error
    except msgspec.DecodeError as error:
        raise _not_json(error, body) from error
    except RecursionError as error:
        raise invalid("body", "the body is nested too deeply", "nesting depth") from error


def read_parameters(kind: type[T], given: Mapping[str, str]) -> T:
    """Decode the parameters of a path and a query; raise the problem 400 that names the invalid one and its limit."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        problem = _problem(str(error).replace(", got `str`", ""), kind)
        for schema in _schemas_at(kind, problem.field):
            if schema.get("type") == "integer":
                least, most = schema["minimum"], schema["maximum"]
                problem.limit = f"{least}…{most}"
                wrong = "out of bounds" if "=" in problem.detail else "no whole number"
                problem.detail = f"{problem.field} is {wrong}: {problem.limit}"
        raise problem from error


def _not_json(error: msgspec.DecodeError, body: bytes) -> Problem:
    """Return the problem of a body that is not JSON."""
    if "truncated" in str(error) and _SURROGATE.search(body):
        return invalid("body", "a text holds half of a surrogate pair, as \\ud800: it is no Unicode text")
    return invalid("body", f"the body is no JSON: {error}")


def _read(decode: Callable[[bytes], T], body: bytes) -> T:
    """Decode. If an integer is written with a decimal point, decode again with 8.0 as 8: JSON has one number type."""
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


def _problem(message: str, kind: Any) -> Problem:
    """Return the problem for msgspec's error message about a value of this type."""
    match = _PATH.match(message)
    assert match is not None, "the pattern matches any text"
    message, path = match["message"], match["path"] or ""
    if named := _UNKNOWN.match(message) or _REQUIRED.match(message):
        path = f"{path}.{named['name']}" if path else named["name"]
        message = "no such field" if message.startswith("Object contains") else "the field is missing"
    if pattern := _MATCHING.match(message):
        rule = pattern_text(pattern["pattern"].replace(r"\\", "\\"))  # msgspec quotes it
        return invalid(path[:DETAIL_CHARS_MAX], f"the value may have {rule}", rule)
    if _CHOICE.match(message):
        choices = _choices(kind, path)
        return invalid(path[:DETAIL_CHARS_MAX], f"the value may be {choices}", choices)
    bound = BOUND.match(message)
    return invalid(
        path[:DETAIL_CHARS_MAX] or "body",
        message[:DETAIL_CHARS_MAX],
        bound["limit"].removeprefix("of ") if bound else "",
    )


def _choices(kind: Any, path: str) -> str:
    """Return the valid values of the field at a path, as `'a', 'b' or 'c'`."""
    values = [repr(value) for one in _schemas_at(kind, path) for value in one.get("enum", ()) if value]
    return " or ".join((", ".join(values[:-1]), values[-1])) if len(values) > 1 else "".join(values)


def _schemas_at(kind: Any, path: str) -> list[Schema]:
    """Return the schemas of the field at a path in a value of this type."""
    (root,), schemas = msgspec.json.schema_components([kind], ref_template="{name}")
    found = _plain(root, schemas)
    for step in _STEP.findall(path):
        inner = [one.get("items") if step == "[" else one.get("properties", {}).get(step) for one in found]
        found = [plain for one in inner if one for plain in _plain(one, schemas)]
    return found


def _plain(schema: Schema, schemas: dict[str, Schema]) -> list[Schema]:
    """Return the alternatives of a schema, with references resolved."""
    if "$ref" in schema:
        return _plain(schemas[schema["$ref"]], schemas)
    return [plain for one in schema.get("anyOf", ()) for plain in _plain(one, schemas)] or [schema]
