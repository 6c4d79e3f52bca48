"""Charts as inline SVG: stacked areas, lines, bars, a heat map. The plot scales with the page; its texts are HTML and do not. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from gantry_spark.render.formats import safe
from gantry_spark.render.scales import Linear, Logarithmic, Tick, time_ticks

WIDTH, HEIGHT = 1000, 300
COLOURS: Final = 8
Words = Callable[[float], str]


class Series(NamedTuple):
    """A line or area: a name, and a value for each point of the axis; None for a missing one."""

    name: str
    values: Sequence[float | None]


class Chart(NamedTuple):
    """The common properties of a chart."""

    title: str
    """Describes the chart; screen readers read it instead of the picture."""
    words: Words
    """The formatter of values."""
    scale: Linear | Logarithmic


def areas(chart: Chart, times: Sequence[datetime], series: Sequence[Series]) -> str:
    """Draw stacked areas."""
    below = [0.0] * len(times)
    shapes: list[str] = []
    for number, one in enumerate(series):
        above = [low + (value or 0) for low, value in zip(below, one.values, strict=True)]
        there = _points(chart.scale, above)
        back = _points(chart.scale, below)[::-1]
        shapes.append(f'<path class="a{number % COLOURS}" d="M{"L".join([*there, *back])}Z"/>')
        below = above
    return _over_time(chart, times, series, "".join(shapes))


def lines(chart: Chart, times: Sequence[datetime], series: Sequence[Series]) -> str:
    """Draw lines over time."""
    return _over_time(chart, times, series, _lines(chart.scale, series))


def curves(chart: Chart, labels: Sequence[str], series: Sequence[Series]) -> str:
    """Draw lines over named steps, such as upper bounds."""
    places = [
        (n / max(len(labels) - 1, 1), word) for n, word in enumerate(labels) if n % 2 == 0 or len(labels) < 9
    ]
    return _figure(chart, _lines(chart.scale, series), places, series, labels)


def bars(chart: Chart, labels: Sequence[str], series: Sequence[Series]) -> str:
    """Draw columns, stacked per step."""
    width = WIDTH / max(len(labels), 1)
    shapes: list[str] = []
    for step in range(len(labels)):
        foot = 0.0
        for number, one in enumerate(series):
            value = one.values[step] or 0
            top, low = chart.scale.place(foot + value), chart.scale.place(foot)
            if top > low:
                shapes.append(
                    f'<rect class="a{number % COLOURS}" x="{width * (step + 0.12):.1f}" y="{HEIGHT * (1 - top):.1f}" '
                    f'width="{width * 0.76:.1f}" height="{HEIGHT * (top - low):.1f}"/>'
                )
            foot += value
    gap = len(labels) // 9 + 1
    places = [((n + 0.5) / len(labels), word) for n, word in enumerate(labels) if n % gap == 0]
    return _figure(chart, "".join(shapes), places, series, labels, at_middle=True)


def heat(title: str, times: Sequence[datetime], rows: Sequence[Series], words: Words) -> str:
    """Draw a heat map: a row for each series, darker for more, scaled per row."""
    drawn: list[str] = []
    for row in rows:
        most = max([value or 0 for value in row.values], default=0)
        width = WIDTH / max(len(times), 1)
        cells = "".join(
            f'<rect x="{n * width:.2f}" y="0" width="{width + 0.3:.2f}" height="10" fill-opacity="{0.08 + 0.92 * value / most:.2f}"/>'
            for n, value in enumerate(row.values)
            if value and most
        )
        label = f"{row.name}: at most {words(most)} in one step"
        drawn.append(
            f'<div class="heat-row"><span class="heat-name" title="{safe(row.name)}">{safe(row.name)}</span>'
            f'<svg role="img" viewBox="0 0 {WIDTH} 10" preserveAspectRatio="none"><title>{safe(label)}</title>{cells}</svg>'
            f'<span class="heat-most">{safe(words(most))}</span></div>'
        )
    ticks = _under(time_ticks(times[0], times[-1])) if times else ""
    foot = f'<div class="heat-row"><span></span><div class="x-axis">{ticks}</div><span></span></div>'
    return f'<figure class="heat"><figcaption>{safe(title)}</figcaption>{"".join(drawn)}{foot}</figure>'


def _over_time(chart: Chart, times: Sequence[datetime], series: Sequence[Series], shapes: str) -> str:
    ticks = time_ticks(times[0], times[-1]) if times else []
    return _figure(chart, shapes, ticks, series, [f"{at:%Y-%m-%d %H:%M:%S}" for at in times])


def _figure(
    chart: Chart, shapes: str, x_ticks: Sequence[tuple[float, str]], series: Sequence[Series], labels: Sequence[str],
    *, at_middle: bool = False,
) -> str:  # fmt: skip
    """Combine a plot with its axes, its legend, and the data for the script's tooltip."""
    grid = "".join(
        f'<line class="grid" x1="0" x2="{WIDTH}" y1="{_y(tick):.1f}" y2="{_y(tick):.1f}"/>'
        for tick in chart.scale.ticks()
    )
    left = "".join(
        f'<span style="bottom:{100 * tick.place:.2f}%">{safe(chart.words(tick.value))}</span>'
        for tick in chart.scale.ticks()
    )
    names = "".join(
        f'<li><i class="k{n % COLOURS}"></i>{safe(one.name)}</li>' for n, one in enumerate(series)
    )
    under = {
        "middle": at_middle,
        "labels": list(labels),
        "series": [{"name": one.name, "values": [None if v is None else chart.words(v) for v in one.values]} for one in series],
    }  # fmt: skip
    data = json.dumps(under, ensure_ascii=True, separators=(",", ":"))
    return (
        f'<figure class="chart"><figcaption>{safe(chart.title)}</figcaption><ul class="legend">{names}</ul>'
        f'<div class="plot"><div class="y-axis" aria-hidden="true">{left}</div><div class="canvas" data-under="{safe(data)}">'
        f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"><title>{safe(chart.title)}</title>{grid}{shapes}</svg>'
        f'</div><div class="x-axis" aria-hidden="true">{_under(x_ticks)}</div></div></figure>'
    )


def _lines(scale: Linear | Logarithmic, series: Sequence[Series]) -> str:
    """Draw a path for each series; a value without neighbours becomes a short dash."""
    paths: list[str] = []
    for number, one in enumerate(series):
        parts: list[str] = []
        is_open = False
        for n, value in enumerate(one.values):
            if value is None:
                is_open = False
                continue
            x, y = WIDTH * n / max(len(one.values) - 1, 1), HEIGHT * (1 - scale.place(value))
            parts.append(f"{'L' if is_open else 'M'}{x:.1f},{y:.1f}" + ("" if is_open else "h2"))
            is_open = True
        paths.append(f'<path class="l{number % COLOURS}" d="{"".join(parts)}"/>')
    return "".join(paths)


def _points(scale: Linear | Logarithmic, values: Sequence[float]) -> list[str]:
    """Return corners; a single value becomes a plateau over the whole width."""
    if len(values) == 1:
        values = [values[0], values[0]]
    return [
        f"{WIDTH * n / (len(values) - 1):.1f},{HEIGHT * (1 - scale.place(v)):.1f}"
        for n, v in enumerate(values)
    ]


def _y(tick: Tick) -> float:
    return HEIGHT * (1 - tick.place)


def _under(ticks: Sequence[tuple[float, str]]) -> str:
    return "".join(
        f'<span class="{"odd" if n % 2 else "even"}" style="left:{100 * place:.2f}%">{safe(word)}</span>'
        for n, (place, word) in enumerate(ticks)
    )
