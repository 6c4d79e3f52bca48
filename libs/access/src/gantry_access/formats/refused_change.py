"""The error of admin bodies that cannot become a user or policies."""

from __future__ import annotations

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest


class RefusedChange(RefusedRequest):
    """An admin request is refused with this code and remark. Texts that RocketMQ has are its own."""


def no_permission(remark: str) -> RefusedChange:
    """Return the error with the code of most refusals, 16."""
    return RefusedChange(ResponseCode.NO_PERMISSION, remark)
