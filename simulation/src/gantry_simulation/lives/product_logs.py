"""The logs of the product during a life: kept out of the terminal, and searched for logged exceptions, rebuilds and damage."""

from __future__ import annotations

import logging
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

SDK = logging.getLogger("gantrymq")
"""It logs errors of listeners, which the seed wants."""
UVICORN = logging.getLogger("uvicorn.error")
REBUILDING = "rebuilding queues and index"
WANTED = "the index was switched off"
"""A start with the index on again must build it."""


DAMAGE = frozenset({"damaged bytes in the log are skipped", "damaged records are left out of a reply"})
"""How a store reports damage of its log."""


class ProductLogs:
    """What must not be logged in a life without damage, in order."""

    def __init__(self) -> None:
        self.exceptions: list[str] = []
        self.rebuilds: list[str] = []
        """Starts of stores that read their whole log, with the reason."""
        self._is_wanted = False
        """After a power cut, what a wanted rebuild has not saved is rebuilt again."""
        self.damage: int = 0
        """Reports of damage."""

    def take(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Take one event. A structlog processor."""
        error = event.get("exc_info")
        if error:
            self.exceptions.append(f"{event.get('event')}: {error!r}")
        self.damage += event.get("event") in DAMAGE
        detail = str(event.get("detail"))
        if event.get("event") == REBUILDING:
            self._is_wanted |= detail.startswith(WANTED)
        if event.get("event") == REBUILDING and not self._is_wanted:
            self.rebuilds.append(f"{REBUILDING}: {event.get('reason')}, {detail}")
        raise structlog.DropEvent


class _Uvicorn(logging.Handler):
    """Takes what uvicorn logs with an exception."""

    def __init__(self, logs: ProductLogs) -> None:
        super().__init__()
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._logs.exceptions.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def product_logs() -> Generator[ProductLogs]:
    """Collect the logs of this process for a while instead of writing them."""
    before = structlog.get_config()
    logs = ProductLogs()
    structlog.configure(processors=[logs.take])
    level = SDK.level
    SDK.setLevel(logging.CRITICAL)
    uvicorn = _Uvicorn(logs)
    UVICORN.addHandler(uvicorn)
    UVICORN.propagate = False
    try:
        yield logs
    finally:
        SDK.setLevel(level)
        UVICORN.removeHandler(uvicorn)
        UVICORN.propagate = True
        structlog.configure(**before)
