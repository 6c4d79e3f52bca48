"""What FastAPI and pydantic say about a request, as problems that name the field and the limit. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from starlette.exceptions import HTTPException

from gateway.http.problems import Problem, invalid
from gateway.requests.patterns import in_words

_LIMITS = ("ge", "le", "gt", "lt", "min_length", "max_length", "expected")
_SIGNS = {"ge": "≥ ", "le": "≤ ", "gt": "> ", "lt": "< ", "min_length": "≥ ", "max_length": "≤ "}
_WORDS = {
    "extra_forbidden": "no such field",
    "missing": "the field is missing",
    "model_attributes_type": "Expected `object`",
    "model_type": "Expected `object`",
    "dict_type": "Expected `object`",
}
"""Said as the calls say it whose bodies msgspec reads."""
_PLACES = frozenset({"body", "query", "path", "header"})


def validation_problem(errors: Sequence[Mapping[str, Any]], body: object = None) -> Problem:
    """Return the problem of the first of pydantic's errors; `body` is what the client wrote."""
    first = _plainest(errors)
    location: Sequence[str | int] = first.get("loc", ())
    if location and location[0] == "body":
        location = _written(location[1:], body, is_missing=first.get("type") == "missing")
    context: Mapping[str, Any] = first.get("ctx") or {}
    if "pattern" in context:
        rule = in_words(str(context["pattern"]))
        return invalid(_field(location), f"the value may have {rule}", rule)
    limit = next((f"{_SIGNS.get(name, '')}{context[name]}" for name in _LIMITS if name in context), "")
    words = _WORDS.get(str(first.get("type")), str(first.get("msg", "invalid")))
    return invalid(_field(location), words, limit)


def _plainest(errors: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the first error; of a value that may be of several types, the one of the type it has."""
    place = errors[0].get("loc", ())[:-1]
    same = (one for one in errors if one.get("loc", ())[:-1] == place)
    of_its_type = (one for one in same if not str(one.get("type")).endswith("_type"))
    return next(of_its_type, errors[0]) if str(errors[0].get("type")).endswith("_type") else errors[0]


def http_problem(error: HTTPException) -> Problem:
    """Return the problem for what the router itself refuses."""
    match error.status_code:
        case 404:
            problem = Problem(404, "NOT_FOUND", "there is no such resource; see /docs")
        case 405:
            problem = Problem(405, "METHOD_NOT_ALLOWED", "the resource does not have this method; see Allow")
        case _:
            problem = Problem(error.status_code, "INVALID_PARAMETER", str(error.detail), field="body")
    problem.headers = [
        (name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()
    ]
    return problem


def _written(location: Sequence[str | int], body: object, *, is_missing: bool) -> list[str | int]:
    """Return a place in a body without the names pydantic gives to the kinds a value may be of: nobody wrote those."""
    written: list[str | int] = []
    for number, part in enumerate(location):
        if isinstance(body, dict) and part in body:
            body = cast("dict[str | int, object]", body)[part]
        elif isinstance(body, list) and isinstance(part, int):
            body = cast("list[object]", body)[part]
        elif not (is_missing and number == len(location) - 1):
            continue
        written.append(part)
    return written


def _field(location: Sequence[str | int]) -> str:
    """Return `offsets[0].queueId` for ("body", "offsets", 0, "queueId")."""
    parts = location[1:] if location and location[0] in _PLACES else location
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "body"
