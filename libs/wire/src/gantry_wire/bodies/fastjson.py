"""Reads and writes fastjson, the JSON dialect of RocketMQ's bodies.

Reads bare numbers, names and whole objects as keys, single quotes and trailing commas, as fastjson does.
Writes bare integer keys and object keys, and omits nulls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from gantry_wire.errors import MalformedBody
from gantry_wire.limits import JSON_DEPTH_MAX


class ObjectKey(str):
    """The compact text of a JSON object used as a key. Written back without quotes."""

    __slots__ = ()


def loads(data: bytes) -> object:
    """Return the content of JSON or fastjson text. Raises MalformedBody if it is neither.

    Bare keys become text and object keys ObjectKey. Integers of any size stay integers.
    """
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        return _Reader(data.decode()).read_all()
    except (UnicodeError, ValueError) as error:
        raise MalformedBody(f"the body is not JSON: {error}") from error


def dumps(content: object, *, standard: bool = False) -> bytes:
    """Return content as fastjson writes it: compact, without nulls, integer and object keys bare.

    `standard` writes JSON that every parser reads: integer keys quoted, keys sorted, only ASCII.
    msgspec Structs are written with their wire names.
    """
    parts: list[str] = []
    _write(content, parts, standard)
    text = "".join(parts)
    return (_escape_unicode(text) if standard else text).encode()


_encode = msgspec.json.Encoder().encode


def _write(content: object, parts: list[str], standard: bool) -> None:
    if isinstance(content, msgspec.Struct):
        if getattr(content, "is_plain", False) and not standard:
            parts.append(_encode(content).decode())
            return
        content = _struct_map(content)
    if isinstance(content, Mapping):
        _write_map(cast("Mapping[object, object]", content), parts, standard)
    elif isinstance(content, (list, tuple, set, frozenset)):
        _write_list(cast("list[object]", content), parts, standard)
    else:
        parts.append(_encode(content).decode())


def _write_map(content: Mapping[object, object], parts: list[str], standard: bool) -> None:
    items = [(_key(key, standard), value) for key, value in content.items() if value is not None]
    if standard:
        items.sort(key=lambda item: item[0])
    separator = "{"
    for key, value in items:
        parts.append(f"{separator}{key}:")
        separator = ","
        _write(value, parts, standard)
    parts.append("}" if items else "{}")


def _write_list(content: list[object], parts: list[str], standard: bool) -> None:
    separator = "["
    for value in content:
        parts.append(separator)
        separator = ","
        _write(value, parts, standard)
    parts.append("]" if content else "[]")


def _key(key: object, standard: bool) -> str:
    if isinstance(key, ObjectKey):
        return key
    if isinstance(key, bool) or not isinstance(key, (str, int, msgspec.Struct)):
        raise TypeError(f"a {type(key).__name__} cannot be a JSON key")
    if isinstance(key, str):
        return _encode(key).decode()
    if isinstance(key, int):
        return f'"{key}"' if standard else str(key)
    return dumps(key, standard=standard).decode()


def _struct_map(struct: msgspec.Struct) -> dict[object, object]:
    names = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    return {name: getattr(struct, attribute) for name, attribute in names}


def _escape_unicode(text: str) -> str:
    if text.isascii():
        return text
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[n : n + 2], "big") for n in range(0, len(units), 2))
    return "".join(chr(code) if code < 0x80 else f"\\u{code:04X}" for code in codes)


_SPACE = re.compile(r"[ \t\r\n]*")
_TEXT = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}


class _Reader:
    """Recursive-descent reader of one text. Raises ValueError with the character position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read_all(self) -> object:
        content = self._value(JSON_DEPTH_MAX)
        if self._peek():
            raise self._wrong("nothing more")
        return content

    def _value(self, depth: int) -> object:
        if not depth:
            raise ValueError(f"nested deeper than {JSON_DEPTH_MAX}")
        first = self._peek()
        if first == "{":
            return self._object(depth - 1)
        if first == "[":
            return self._array(depth - 1)
        if first in "\"'" and first:
            return self._quoted()
        if first == "-" or first.isdecimal():
            return self._number()
        word = self._match(_WORD)
        if word not in _WORDS:
            raise self._wrong("a value")
        return _WORDS[word]

    def _object(self, depth: int) -> dict[str, object]:
        self._at += 1
        content: dict[str, object] = {}
        while self._peek() != "}":
            key = self._key(depth)
            self._expect(":")
            content[key] = self._value(depth)
            if self._peek() != "}":
                self._expect(",")
        self._at += 1
        return content

    def _array(self, depth: int) -> list[object]:
        self._at += 1
        content: list[object] = []
        while self._peek() != "]":
            content.append(self._value(depth))
            if self._peek() != "]":
                self._expect(",")
        self._at += 1
        return content

    def _key(self, depth: int) -> str:
        first = self._peek()
        if first == "{":
            return ObjectKey(dumps(self._value(depth)).decode())
        if first in "\"'" and first:
            return self._quoted()
        return self._match(_NUMBER) or self._match(_WORD) or self._fail("a key")

    def _quoted(self) -> str:
        found = _TEXT.match(self._text, self._at)
        if found is None:
            raise self._wrong("the end of a text")
        self._at = found.end()
        text = found[1] if found[1] is not None else found[2]
        if "\\" not in text:
            return text
        unescaped = _ESCAPE.sub(_unescape, text)
        return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")

    def _number(self) -> int | float:
        text = self._match(_NUMBER)
        if not text:
            raise self._wrong("a number")
        return float(text) if set(text) & set(".eE") else int(text)

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _peek(self) -> str:
        """Skip whitespace and return the next character; empty at the end."""
        self._match(_SPACE)
        return self._text[self._at : self._at + 1]

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._wrong(repr(character))
        self._at += 1

    def _fail(self, wanted: str) -> Any:
        raise self._wrong(wanted)

    def _wrong(self, wanted: str) -> ValueError:
        return ValueError(f"{wanted} expected at character {self._at}")


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)
