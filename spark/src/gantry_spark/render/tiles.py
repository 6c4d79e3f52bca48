"""The key metrics at the head of a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gantry_spark.render import formats
from gantry_spark.render.formats import safe


class Tile(NamedTuple):
    """A metric: its value, its label, and its verdict."""

    value: str
    words: str
    verdict: str = ""


def tiles(report: Mapping[str, Any]) -> str:
    """Return the tiles of a report."""
    drawn = "".join(
        f'<li class="tile {one.verdict}"><b>{safe(one.value)}</b><span>{safe(one.words)}</span></li>'
        for one in _chosen(report)
    )
    return f'<ul class="tiles">{drawn}</ul>'


def _chosen(report: Mapping[str, Any]) -> list[Tile]:
    totals: Mapping[str, Any] = report["totals"]
    rate, volume = totals["messagesPerSecond"], totals["bytesPerSecond"]
    chosen = [
        Tile(formats.count(totals["messages"]), f"messages in {formats.count(totals['topics'])} topics"),
        Tile(formats.size(totals["bytes"]), "bytes of user records"),
        Tile(f"{formats.count(rate)}/s", f"on average, {formats.size(volume)}/s"),
        Tile(formats.millis(totals["latencyP99Ms"]), "p99 store latency"),
    ]
    if totals["groups"]:
        chosen.append(Tile(formats.count(totals["lag"]), f"lag of {formats.count(totals['groups'])} groups"))
    if totals["delayed"]:
        verdict = "bad" if totals["overdue"] else "warn" if totals["early"] else ""
        words = f"p99 delivery lateness of {formats.count(totals['delayed'])} delayed"
        words += "".join(
            f"; {formats.count(totals[key])} {key}" for key in ("overdue", "early") if totals[key]
        )
        chosen.append(Tile(formats.millis(totals["delayP99Ms"]), words, verdict))
    if totals["transactions"]:
        words = f"open of {formats.count(totals['transactions'])} transactions"
        chosen.append(
            Tile(
                formats.count(totals["openTransactions"]), words, "warn" if totals["openTransactions"] else ""
            )
        )
    chosen.append(Tile(formats.count(totals["retries"]), "redeliveries to groups"))
    chosen.append(
        Tile(formats.count(totals["deadLetters"]), "dead letters", "bad" if totals["deadLetters"] else "")
    )
    if totals["damaged"]:
        chosen.append(Tile(formats.count(totals["damaged"]), "damaged pieces", "bad"))
    return chosen
