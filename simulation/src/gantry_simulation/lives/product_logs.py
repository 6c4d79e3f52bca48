"""The logs of the product during a life: kept out of the terminal, and searched for exceptions that it caught and logged."""

from __future__ import annotations

from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog


class ProductLogs:
    """What was logged with an exception, in order."""

    def __init__(self) -> None:
        self.exceptions: list[str] = []

    def take(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Take one event. A structlog processor."""
        error = event.get("exc_info")
        if error:
            self.exceptions.append(f"{event.get('event')}: {error!r}")
        raise structlog.DropEvent


@contextmanager
def product_logs() -> Generator[ProductLogs]:
    """Collect the logs of this process for a while instead of writing them."""
    before = structlog.get_config()
    logs = ProductLogs()
    structlog.configure(processors=[logs.take])
    try:
        yield logs
    finally:
        structlog.configure(**before)
