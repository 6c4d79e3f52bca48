"""Bytes that are fixed, with holes that vary: learned from frames, filled, and compared with others. Pure.

Filling a template costs a tenth of encoding, comparing with one a tenth of decoding. What a template says about a frame holds only where
all fixed bytes are equal and every hole holds what its kind allows; everything else is encoded or decoded in full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, NamedTuple


class HoleKind(NamedTuple):
    """What a hole may hold."""

    fills_with: bytes
    """How `%` writes a value into the hole."""
    struct_code: str
    """How struct reads the hole; empty: as bytes of the hole's size."""
    samples: tuple[Any, Any]
    """Two values that differ in every byte, to learn where the hole lies."""
    margin: int = 0
    """Bytes on each side of a sample that also belong to the hole."""


NUMBER = HoleKind(b"%d", "", (1_000_000_000, 2_111_111_111))
"""Decimal digits. Filled with an int of any size; read as bytes, unchecked."""
JSON_TEXT = HoleKind(b"%b", "", ("a", "b"), margin=1)
"""A string in JSON. Filled with its encoded bytes, quotes included."""
RAW = HoleKind(b"%b", "", (b"a", b"b"))
"""Any bytes."""
INT32 = HoleKind(b"%b", "i", (b"aaaa", b"bbbb"))
"""Four bytes, big-endian. Filled with bytes, read as an int."""


class Hole(NamedTuple):
    """A part of a frame that varies."""

    start: int
    end: int
    kind: HoleKind


class FrameTemplate:
    """A frame with holes."""

    __slots__ = ("cut", "fill")

    def __init__(self, frame: bytes, holes: Sequence[Hole]) -> None:
        """Make a template of a frame and its holes, in their order."""
        form, codes, at = b"", ">", 0
        for start, end, kind in holes:
            assert at <= start <= end <= len(frame), "holes come in order and lie within the frame"
            form += frame[at:start].replace(b"%", b"%%") + kind.fills_with
            codes += f"{start - at}s{kind.struct_code or f'{end - start}s'}"
            at = end
        form += frame[at:].replace(b"%", b"%%")
        self.fill: Callable[[tuple[Any, ...]], bytes] = form.__mod__
        """Returns a frame with these values, one for each hole."""
        self.cut: Callable[[bytes], tuple[Any, ...]] = Struct(f"{codes}{len(frame) - at}s").unpack
        """Returns the parts of a frame of the same size: fixed bytes, hole, fixed bytes, and so on."""


def learn(write: Callable[[Sequence[Any]], bytes], kinds: Sequence[HoleKind]) -> FrameTemplate:
    """Return the template of what `write` makes of a value for each hole, all else being equal.

    Each hole lies where two frames differ that differ in its value alone: so a name that looks like a value is never taken for a hole.
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
    """Return a cutter for text with a number behind the first of these marks that is found. All marks have one size.

    The cutter takes text and its end. It returns the fixed bytes before that end and the number, None where there is no such number.
    """
    first, *others = marks
    size = len(first)
    assert all(len(mark) == size for mark in others), "marks have one size"

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
