"""Adjusts the requests of schemathesis to limits of HTTP clients, not of the gateway."""

from __future__ import annotations

import math
import os
from typing import Any

import schemathesis

WAIT_SECONDS_LEGAL = 30
WAIT_SECONDS_MAX = float(os.environ.get("WAIT_SECONDS_MAX", WAIT_SECONDS_LEGAL))
"""How long calls are held: the longest holds in the description add up to minutes."""


@schemathesis.hook
def filter_path_parameters(_context: object, path_parameters: dict[str, Any] | None) -> bool:
    """Skip paths with a literal `%00`: HTTP clients send it unchanged, although `%2500` would be correct."""
    return not any("%" in str(value) for value in (path_parameters or {}).values())


@schemathesis.hook
def before_call(_context: object, case: Any, _arguments: object) -> None:
    """Shorten the hold where a hold is valid."""
    for fields, seconds in ((case.body, WAIT_SECONDS_MAX), (case.query, math.ceil(WAIT_SECONDS_MAX))):
        wanted = fields.get("waitSeconds") if isinstance(fields, dict) else None
        if type(wanted) in (int, float) and seconds < wanted <= WAIT_SECONDS_LEGAL:
            fields["waitSeconds"] = seconds
