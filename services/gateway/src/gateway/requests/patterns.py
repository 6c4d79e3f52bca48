"""The patterns of names and ids in words, so that errors need not show a regular expression. Pure."""

import re

_SHAPE = re.compile(
    r"^\^(?:\[(?P<set>.+)\]|(?P<blank>\\S))(?P<count>\*|\+|\{(?P<least>\d+),(?P<most>\d+)\})\$$"
)
_LETTERS = "letters a to z and A to Z, digits"
_SETS = {
    "%|a-zA-Z0-9_-": f"{_LETTERS}, and % | _ -",
    "A-Za-z0-9._~-": f"{_LETTERS}, and . _ ~ -",
    "A-Za-z0-9_.": f"{_LETTERS}, and _ .",
    "A-Za-z0-9_-": f"{_LETTERS}, and _ -",
    r"^\x00-\x1f\x7f": "all but control characters",
}
_NO_BLANKS = "all but blanks"


def pattern_text(pattern: str) -> str:
    """Return which characters a pattern allows, and how many; the pattern itself if it has no description."""
    shape = _SHAPE.match(pattern)
    characters = None if shape is None else _NO_BLANKS if shape["blank"] else _SETS.get(shape["set"])
    if shape is None or characters is None:
        return f"the pattern {pattern}"
    if shape["most"] is not None:
        return f"{shape['least']} to {shape['most']} characters: {characters}"
    if shape["count"] == "+":
        return f"1 or more characters: {characters}"
    return "any characters but blanks" if characters == _NO_BLANKS else f"characters: {characters}"
