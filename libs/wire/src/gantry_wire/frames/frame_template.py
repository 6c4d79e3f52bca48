"""Frame templates: fixed bytes with holes for the values that vary. Learned from frames, then filled or compared. Pure.

Filling a template costs a tenth of encoding; comparing with one costs a tenth of decoding. A template matches a frame only if
all fixed bytes are equal and every hole holds a value that its kind allows. Encode or decode everything else in full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, NamedTuple


class HoleKind(NamedTuple):
    """The kind of value in a hole."""

    fills_with: bytes
    """The `%` format that writes a value into the hole."""
    struct_code: str
    """The struct code that reads the hole; empty for bytes of the hole's size."""
    samples: tuple[Any, Any]
    """Two values that differ in every byte, used to locate the hole."""
    margin: int = 0
    """Bytes on each side of a sample that belong to the hole."""


NUMBER = HoleKind(b"%d", "", (1_000_000_000, 2_111_111_111))
"""Decimal digits. Fill with an int of any size. Read as bytes, unchecked."""
JSON_TEXT = HoleKind(b"%b", "", ("a", "b"), margin=1)
"""A string in JSON. Fill with its encoded bytes, quotes included."""
RAW = HoleKind(b"%b", "", (b"a", b"b"))
"""Any bytes."""
INT32 = HoleKind(b"%b", "i", (b"aaaa", b"bbbb"))
"""Four bytes, big-endian. Fill with bytes. Read as an int."""


class Hole(NamedTuple):
    """A variable part of a frame."""

    start: int
    end: int
    kind: HoleKind


class FrameTemplate:
    """A frame with holes."""

    __slots__ = ("cut", "fill")

    def __init__(self, frame: bytes, holes: Sequence[Hole]) -> None:
        """Build the template of a frame from its holes, in ascending order."""
        form, codes, at = b"", ">", 0
        for start, end, kind in holes:
            assert at <= start <= end <= len(frame), "holes are in order and within the frame"
            form += frame[at:start].replace(b"%", b"%%") + kind.fills_with
            codes += f"{start - at}s{kind.struct_code or f'{end - start}s'}"
            at = end
        form += frame[at:].replace(b"%", b"%%")
        self.fill: Callable[[tuple[Any, ...]], bytes] = form.__mod__
        """Returns a frame with these values, one per hole."""
        self.cut: Callable[[bytes], tuple[Any, ...]] = Struct(f"{codes}{len(frame) - at}s").unpack
        """Splits a frame of the same size into its parts: fixed bytes, hole, fixed bytes, and so on."""


def learn(write: Callable[[Sequence[Any]], bytes], kinds: Sequence[HoleKind]) -> FrameTemplate:
    """Return the template of the frames that `write` builds from one value per hole.

    Locates each hole by comparing two frames that differ only in that value, so a name that looks like a value is never
    mistaken for a hole.
    """
    first = [kind.samples[0] for kind in kinds]
    frame = write(first)
    holes: list[Hole] = []
    for number, kind in enumerate(kinds):
        other = write([*first[:number], kind.samples[1], *first[number + 1 :]])
        places = [at for at, (one, two) in enumerate(zip(frame, other, strict=True)) if one != two]
        holes.append(Hole(places[0] - kind.margin, places[-1] + 1 + kind.margin, kind))
    return FrameTemplate(frame, holes)


def marked_number(
    marks: Sequence[bytes], end_mark: bytes, digits_max: int
) -> Callable[[bytes, int], tuple[bytes, int] | None]:
    """Return a function that cuts a number out of text, after the first of these marks that the text contains.

    All marks have the same size. The function takes the text and an end. It returns the fixed bytes around the number and
    the number, or None if there is no such number before the end.
    """
    first, *others = marks
    size = len(first)
    assert all(len(mark) == size for mark in others), "all marks have the same size"

    def cut(data: bytes, end: int) -> tuple[bytes, int] | None:
        at = data.find(first, 0, end)
        if at < 0:
            for mark in others:
                at = data.find(mark, 0, end)
                if at >= 0:
                    break
            else:
                return None
        at += size
        digits_end = data.find(end_mark, at)
        digits = data[at:digits_end]
        if not digits.isdigit() or len(digits) > digits_max:
            return None
        return data[:at] + data[digits_end:end], int(digits)

    return cut
