"""The validated options of `./gantry report`. Imports nothing large."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gantry_spark.reports.facts import Span
    from gantry_spark.store.directory import StoreDirectory
    from gantry_spark.store.snapshot import Snapshot

DATA = "data"


class NotPossible(Exception):
    """The request cannot be carried out; the text is one line for people."""


class Sources(NamedTuple):
    """The logs: paths, with HTTP addresses of running stores by broker name, or a manifest of a snapshot."""

    paths: tuple[str, ...]
    manifest: str | None
    http: Mapping[str, str]
    replica: str
    """Of brokers with replicas: leader, follower or a name."""

    def check(self) -> None:
        """Raise NotPossible if there is no store."""
        from gantry_spark.store import directory as store_directory
        from gantry_spark.store import snapshot

        try:
            if self.manifest is None:
                self._check_names(store_directory.find(self.paths, self.http, self.replica))
            else:
                snapshot.load(self.manifest)
        except snapshot.NotAStore as error:
            raise NotPossible(str(error)) from None

    def take(self) -> Snapshot:
        """Return a snapshot of the stores' current content."""
        from gantry_spark.store import snapshot

        return (
            snapshot.take(self.paths, http=self.http, replica=self.replica)
            if self.manifest is None
            else snapshot.load(self.manifest)
        )

    def _check_names(self, stores: Sequence[StoreDirectory]) -> None:
        names = [store.broker for store in stores]
        if unknown := sorted(set(self.http) - set(names)):
            raise NotPossible(f"--http names {', '.join(unknown)}, but the stores are: {', '.join(names)}")


def sources_of(
    data: str | None, stores: Sequence[str], manifest: str | None, http: Sequence[str] = (), replica: str = "leader"
) -> Sources:  # fmt: skip
    """Return the sources of the options. Raises NotPossible."""
    addresses: dict[str, str] = {}
    for words in http:
        broker, _, url = words.partition("=")
        if not broker or not url.startswith(("http://", "https://")):
            raise NotPossible(f"--http {words} is not like broker-a=http://127.0.0.1:10913")
        addresses[broker] = f"{addresses[broker]}|{url}" if broker in addresses else url
    if manifest is not None and (data is not None or stores):
        raise NotPossible("name a snapshot, or stores and data directories, not both")
    paths = [*([data] if data is not None else []), *stores]
    return Sources(tuple(paths or ([] if manifest is not None else [DATA])), manifest, addresses, replica)


def span_of(since: str | None, below: str | None) -> Span:
    """Return the range of two ISO times; a time without a zone is UTC. Raises NotPossible."""
    from gantry_spark.reports.facts import Span

    span = Span(_ms("--from", since), _ms("--to", below))
    if span.since_ms is not None and span.below_ms is not None and span.since_ms >= span.below_ms:
        raise NotPossible(f"the range is empty: --from {since} is not before --to {below}")
    return span


def levels_of(levels: str | None) -> str:
    """Return a validated list of delay levels; by default RocketMQ's. Raises NotPossible."""
    from gantry_spark.reports.tables import delay_levels

    try:
        delay_levels.durations(levels or delay_levels.DEFAULT)
    except delay_levels.IllegalLevels as error:
        raise NotPossible(str(error)) from None
    return levels or delay_levels.DEFAULT


def opener(page: Path) -> None:
    """Open a page in the browser if the user expects it: from a terminal, with a display."""
    has_display = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if has_display and sys.stdout.isatty() and sys.stderr.isatty():
        webbrowser.open(page.resolve().as_uri())


def _ms(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise NotPossible(
            f"{option} {text!r} is not a time: write 2026-11-22, 2026-11-22T08:00 or 2026-11-22T08:00:00Z"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
