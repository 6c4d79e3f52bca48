"""Periodic jobs of a running consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log: logging.Logger = logging.getLogger("gantrymq")


async def repeat(seconds: float, job: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run a job repeatedly; its exceptions are logged."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await job()
        except Exception:
            log.exception("a periodic job of a consumer failed")
