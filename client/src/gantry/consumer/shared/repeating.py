"""A job of a consumer that runs again and again while it is started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log: logging.Logger = logging.getLogger("gantry")


async def repeat(seconds: float, job: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run a job again and again; what it raises is logged."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await job()
        except Exception:
            log.exception("a repeated job of a consumer failed")
