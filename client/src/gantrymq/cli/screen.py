"""Output: tables and lines for people, JSON for programs. Colours only on a terminal, rich only for a table."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TextIO, cast

from gantrymq.cli.shapes import printable
from gantrymq.cli.wording import as_started

WIDE = 10_000
"""The width of a table in a file or a pipe: nothing is cut."""
LATIN_1_CONTROL_MAX = 0x9F
CODES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Screen:
    """Standard output and standard error of a command."""

    def __init__(self, *, as_json: bool, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.as_json = as_json
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self.is_terminal: bool = self._out.isatty()
        self._has_colours = self.is_terminal and "NO_COLOR" not in os.environ

    def json(self, value: Any) -> None:
        """Print one line of JSON."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        self.line(text if text.isprintable() else "".join(map(_escaped, text)))

    def line(self, text: str) -> None:
        """Print a line unchanged, at once."""
        self._out.write(text + "\n")
        self._out.flush()

    def say(self, words: str) -> None:
        """Print a message about the work on standard error; nothing with --json."""
        if not self.as_json:
            self._err.write(as_started(words) + "\n")
            self._err.flush()

    def paint(self, text: str, colour: str) -> str:
        """Return coloured text, if colours are on."""
        return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if self._has_colours and text else text

    def show(self, value: Any, people: Callable[[], None]) -> None:
        """Print `value` as JSON, or call `people` to print it."""
        if self.as_json:
            self.json(value)
        else:
            people()

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "") -> None:
        """Print a table; columns whose name ends with `>` are right-aligned numbers. `empty` is printed if there is no row."""
        held = [[_cell(value) for value in row] for row in rows]
        if not held and empty:
            self.say(empty)
            return
        self.line(self.rendered(columns, held))

    def fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print names and values, one a line."""
        held = [(name, _cell(value)) for name, value in pairs]
        width = max((len(name) for name, _ in held), default=0)
        for name, value in held:
            self.line(f"{self.paint(f'{name:<{width}}', 'dim')}  {value}")

    def rendered(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Return a table as text."""
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD if self.is_terminal else None, pad_edge=False, header_style="bold")
        for name in columns:
            is_number = name.endswith(">")
            # Too wide for the terminal: folded, so that an id can still be copied whole.
            justify: Literal["left", "right"] = "right" if is_number else "left"
            table.add_column(name.removesuffix(">"), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*(Text(value) for value in row))
        console = Console(
            width=None if self.is_terminal else WIDE, no_color=not self._has_colours, highlight=False,
            force_terminal=self.is_terminal, file=self._out,
        )  # fmt: skip
        with console.capture() as captured:
            console.print(table)
        return "\n".join(line.rstrip() for line in captured.get().strip("\n").splitlines())

    @contextmanager
    def progress(self, words: str, total: int | None) -> Generator[Callable[[int, int | None], None]]:
        """Show progress on a terminal: yields a function that takes (done, total)."""
        if self.as_json or not self._err.isatty():
            yield lambda _done, _total: None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(file=self._err), transient=True) as progress:
            task = progress.add_task(words, total=total)
            yield lambda done, of: progress.update(task, completed=done, total=of)

    def clear(self) -> None:
        """Clear a terminal before a redraw."""
        if self.is_terminal:
            self._out.write("\x1b[H\x1b[2J")


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return printable(" ".join(map(str, cast("Sequence[object]", value)))) or "-"
    return printable(str(value), kept="\n\t")


def _escaped(char: str) -> str:
    """Escape control characters: JSON escapes those of ASCII, and a terminal obeys those of Latin-1 too."""
    return char if char.isprintable() or ord(char) > LATIN_1_CONTROL_MAX else f"\\u{ord(char):04x}"
