"""What schemathesis is told about clients, not about the gateway."""

from __future__ import annotations

import math
import os
from typing import Any

import schemathesis

WAIT_SECONDS_LEGAL = 30
WAIT_SECONDS_MAX = float(os.environ.get("WAIT_SECONDS_MAX", WAIT_SECONDS_LEGAL))
"""How long calls are held: the longest holds that they ask for are minutes together."""


@schemathesis.hook
def filter_path_parameters(_context: object, path_parameters: dict[str, Any] | None) -> bool:
    """HTTP clients send a literal `%00` in a path as it stands, although it would have to be `%2500`: leave it out."""
    return not any("%" in str(value) for value in (path_parameters or {}).values())


@schemathesis.hook
def before_call(_context: object, case: Any, _arguments: object) -> None:
    """Ask for shorter holds, where a hold is legal."""
    for fields, seconds in ((case.body, WAIT_SECONDS_MAX), (case.query, math.ceil(WAIT_SECONDS_MAX))):
        wanted = fields.get("waitSeconds") if isinstance(fields, dict) else None
        if type(wanted) in (int, float) and seconds < wanted <= WAIT_SECONDS_LEGAL:
            fields["waitSeconds"] = seconds
