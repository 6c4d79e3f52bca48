"""Charts as inline SVG: lines over time, bars of a distribution. The page's style sets the colours. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 68, 12, 12, 30
HEAD = 50
"""Height of title and legend above a picture."""
TICKS = 5

Points = Sequence[tuple[float, float]]


Marks = Sequence[tuple[float, str]]
MINUTES_FROM_SECONDS = 600.0
"""A chart of longer time counts minutes."""


@dataclass(frozen=True)
class Lines:
    """A chart of lines over seconds, for a page or as a separate picture."""

    title: str
    named: dict[str, Points]
    unit: str
    marks: Marks = ()
    """Events drawn as vertical lines."""
    length: float = 0.0
    """Least time shown."""
    dots: bool = False
    """Whether points stand alone."""

    @property
    def drawn(self) -> dict[str, Points]:
        """Return the lines that have points."""
        return {name: points for name, points in self.named.items() if points}

    def figure(self) -> str:
        """Return the chart for a page, or a text when there is nothing to draw."""
        if not self.drawn:
            return _figure(self.title, "<p>Nothing was seen.</p>", [])
        return _figure(self.title, _svg(self.title, self._parts()), list(self.drawn))

    def picture(self, style: str) -> str:
        """Return a standalone picture with title and legend."""
        x, keys = float(LEFT), list[str]()
        for number, name in enumerate(self.drawn):
            keys.append(
                f'<circle class="dot s{number}" cx="{x + 5:.0f}" cy="38" r="5"/><text class="tick" x="{x + 14:.0f}" y="42">{escape(name)}</text>'
            )
            x += 30 + 6.5 * len(name)
        head = f'<text class="title" x="{LEFT}" y="20">{escape(self.title)}</text>{"".join(keys)}'
        inside = f'<g transform="translate(0 {HEAD})">{"".join(self._parts())}</g>' if self.drawn else ""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + HEAD}" role="img" aria-label="{escape(self.title)}">'
            f'<style>{style}</style><rect class="paper" width="{WIDTH}" height="{HEIGHT + HEAD}" rx="8"/>{head}{inside}</svg>\n'
        )

    def _parts(self) -> list[str]:
        right = max(self.length, *(x for points in self.drawn.values() for x, _ in points)) or 1.0
        top = nice_top(max(y for points in self.drawn.values() for _, y in points))
        parts = [
            _grid(right, top, self.unit),
            *(_mark(at, words, right) for at, words in self.marks if 0 <= at <= right),
        ]
        for number, points in enumerate(self.drawn.values()):
            places = [(_x(x, right), _y(y, top)) for x, y in points]
            if self.dots or len(points) == 1:
                parts += [
                    f'<circle class="dot s{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places
                ]
            else:
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
                parts.append(f'<polyline class="line s{number}" points="{path}"/>')
        return parts


def lines(title: str, named: dict[str, Points], unit: str) -> str:
    """Return a chart of lines over seconds for a page, or a text when there is nothing to draw."""
    return Lines(title, named, unit).figure()


def bars(title: str, values: Sequence[tuple[str, float]], unit: str) -> str:
    """Return a chart of named bars, or a text when there is nothing to draw."""
    if not any(value for _, value in values):
        return _figure(title, "<p>Nothing was seen.</p>", [])
    top = nice_top(max(value for _, value in values))
    width = (WIDTH - LEFT - RIGHT) / len(values)
    parts = [_grid(0, top, unit)]
    for number, (name, value) in enumerate(values):
        x, y = LEFT + number * width, _y(value, top)
        parts.append(
            f'<rect class="bar" x="{x + 1:.1f}" y="{y:.1f}" width="{max(1.0, width - 2):.1f}" height="{HEIGHT - BOTTOM - y:.1f}">'
            f"<title>{escape(name)}: {value:g} {escape(unit)}</title></rect>"
        )
        if len(values) <= 12 or number % ceil(len(values) / 12) == 0:
            parts.append(
                f'<text class="tick" x="{x + width / 2:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(name)}</text>'
            )
    return _figure(title, _svg(title, parts), [])


def nice_top(value: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is at least a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999)


def _grid(right: float, top: float, unit: str) -> str:
    parts: list[str] = []
    for tick in range(TICKS + 1):
        y = _y(top * tick / TICKS, top)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        words = f"{top * tick / TICKS:,.7g}" + (f" {escape(unit)}" if tick == TICKS else "")
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{words}</text>')
        if right:
            x = _x(right * tick / TICKS, right)
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="{"end" if tick == TICKS else "middle"}">{_moment(right * tick / TICKS, right)}</text>'
            )
    return "".join(parts)


def _moment(seconds: float, right: float) -> str:
    return f"{seconds / 60:.0f} min" if right >= MINUTES_FROM_SECONDS else f"{seconds:.0f} s"


def _mark(at: float, words: str, right: float) -> str:
    x = _x(at, right)
    return (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
        f"<title>{escape(words)} at {_moment(at, right)}</title></line>"
    )


def _x(value: float, right: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * value / right


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _svg(title: str, parts: list[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _figure(title: str, inside: str, names: list[str]) -> str:
    keys = "".join(f'<span class="key s{number}">{escape(name)}</span>' for number, name in enumerate(names))
    return f"<figure><figcaption>{escape(title)} {keys}</figcaption>{inside}</figure>"
