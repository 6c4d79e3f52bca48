"""What schemathesis is told about clients, not about the gateway."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.hook
def filter_path_parameters(_context: object, path_parameters: dict[str, Any] | None) -> bool:
    """HTTP clients send a literal `%00` in a path as it stands, although it would have to be `%2500`: leave it out."""
    return not any("%" in str(value) for value in (path_parameters or {}).values())
