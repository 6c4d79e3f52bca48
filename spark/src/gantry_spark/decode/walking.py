"""Walks a piece of the log from its start to its stop: yields every record, or reports it as damaged, once.

Blanks and zeros end a segment. After a damaged record the walk reports it and continues at the next proven place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from gantry_spark.decode.blocks import Block
from gantry_spark.decode.bodies import failing_crc
from gantry_spark.decode.boundaries import RECORD_BYTES_LIMIT, Run, follow
from gantry_spark.decode.damage import LandedElsewhere
from gantry_spark.decode.proof import Ground
from gantry_spark.decode.rows import Rows
from gantry_wire.records.message_record import BLANK, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN

Report = Callable[[int, int, str], None]
"""Position, size, why."""
_RECORD_BYTES_GUESS: Final = 256
_STEP_BYTES: Final = 1024 * 1024
_MORE, _DONE, _ZEROS = "more", "done", "zeros"


class Walk:
    """One walk over a piece."""

    def __init__(self, block: Block, ground: Ground, start: int, report: Report, *, check_crc: bool) -> None:
        self._block = block
        self._ground = ground
        self._at = start
        self._report = report
        self._check_crc = check_crc
        self._why = ""

    def rows(self) -> Iterator[Rows]:
        """Yield the intact records of each block. Raises LandedElsewhere."""
        stop, block = self._ground.stop, self._block
        record_bytes, at_least = _RECORD_BYTES_GUESS, 0
        while self._at < stop:
            block.load(self._at, at_least)
            run = follow(block.content, block.size, 0, block.position, record_bytes)
            behind, at_least = self._behind(run.end)
            cut = -1
            if len(run.starts):
                record_bytes = run.end // len(run.starts)
                rows, cut = self._good(run, careful=behind == _ZEROS)
                if len(rows):
                    yield rows
            self._at = block.position + (run.end if cut < 0 else int(run.starts[cut]))
            if cut >= 0:
                self._skip(self._at, self._why)
            elif behind in {_DONE, _ZEROS}:
                return
            elif behind != _MORE:
                self._skip(self._at, behind)

    def _skip(self, at: int, why: str) -> None:
        """Report the damage at a position and continue after it."""
        self._at = self._ground.after_damage(at)
        self._report(at, self._at - at, why)

    def _good(self, run: Run, *, careful: bool) -> tuple[Rows, int]:
        """Return the intact records, and the index of the record after which nothing is proven, or -1."""
        block, count = self._block, len(run.starts)
        rows = Rows(block.content, block.size, run.starts, np.append(run.starts[1:], run.end))
        bad = rows.wrong(block.position)
        stray = [n for n in bad if not rows.stands[n] and (n + 1 == count or not rows.stands[n + 1])]
        cut = min(stray, default=count)
        if self._check_crc or careful:
            bad = dict.fromkeys(np.flatnonzero(failing_crc(rows)).tolist(), "its body fails the CRC") | bad
        if careful:
            bad = dict.fromkeys(np.flatnonzero(rows.torn()).tolist(), "it was not written completely") | bad
        if not bad:
            return rows, -1
        for n in sorted(n for n in bad if n < cut):
            start, end = int(rows.starts[n]), int(rows.ends[n])
            self._report(block.position + start, end - start, bad[n])
        sound = np.arange(count) < cut
        sound[list(bad)] = False
        self._why = bad.get(cut, "")
        return rows.select(sound), cut if cut < count else -1

    def _behind(self, end: int) -> tuple[str, int]:  # noqa: PLR0911 - one answer for each thing that may be there
        """Return what follows the last record: more to read (and how much at least), an end, or damage as text."""
        block, stop = self._block, self._ground.stop
        at = block.position + end
        is_last = block.end == stop
        head = block.peek(at, BLANK.size)
        if at == stop:
            return _DONE, 0
        size, magic = BLANK.unpack(head) if len(head) == BLANK.size else (0, 1)
        if magic in {MAGIC_V1, MAGIC_V2} and RECORD_BYTES_MIN <= size <= RECORD_BYTES_LIMIT:
            if at + size > stop:
                self._must_be_damage(at)
                return f"it reaches past position {stop}, where it should end", 0
            if not is_last and (end or size <= block.size or self._ground.record_at(at)):
                return _MORE, size
            return "no complete record begins here", 0
        if magic == MAGIC_BLANK and at + size == self._ground.segment_end:
            return _DONE, 0
        if (magic == MAGIC_BLANK or not any(head)) and self._is_zero(min(at + BLANK.size, stop)):
            return (_DONE if magic else _ZEROS), 0
        return f"no record begins here: size {size}, magic {magic:#010x}", 0

    def _must_be_damage(self, at: int) -> None:
        """Reject a complete record that only the end of the piece cuts. Raises LandedElsewhere."""
        ground = replace(self._ground, stop=self._ground.segment_end)
        if ground.record_at(at):
            raise LandedElsewhere(
                f"a record at position {at} extends beyond position {self._ground.stop}, where the piece should end: "
                "the plan is wrong, or the log was cut or replaced since it was made; take a new snapshot"
            )

    def _is_zero(self, at: int) -> bool:
        stop = self._ground.stop
        return not any(
            any(self._block.peek(place, min(_STEP_BYTES, stop - place)).lstrip(b"\0"))
            for place in range(at, stop, _STEP_BYTES)
        )
