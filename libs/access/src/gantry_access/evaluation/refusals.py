"""The answer to a refused request: its code, and the remark of a verdict."""

from __future__ import annotations

from typing import Final

from gantry_access.evaluation.verdicts import Reason, Verdict
from gantry_access.model.needs import Need
from gantry_access.model.networks import SourceAddress
from gantry_access.texts import CONTEXT_EMPTY, CONTEXT_UNREADABLE
from gantry_wire.codes import ResponseCode

REFUSED_CODE: Final = ResponseCode.NO_PERMISSION
"""The response code of every refusal."""

_OF_USER = {
    Reason.UNKNOWN_USER: "not found.",
    Reason.USER_DISABLED: "is disabled.",
    Reason.USER_EXPIRED: "has expired.",  # our own: RocketMQ's users do not expire
    Reason.NOT_INNER: "has no permission: only services of Gantry send this request.",  # our own, too
}


def refusal_text(verdict: Verdict, name: str, source: SourceAddress) -> str:
    """Return the remark for a user whose request was refused, with an address without its port. Raises KeyError if it was allowed."""
    match verdict.reason:
        case Reason.NO_NEEDS:
            return CONTEXT_EMPTY
        case Reason.UNKNOWN_REQUIREMENT:
            return CONTEXT_UNREADABLE
        case Reason.DENIED | Reason.NO_MATCH:
            assert isinstance(verdict.refused, Need)
            why = "the decision is deny" if verdict.reason is Reason.DENIED else "no matched policies"
            resource = verdict.refused.resource.text
            return f"User:{name} has no permission to access {resource} from {source.text}, {why}."
        case reason:
            return f"User:{name} {_OF_USER[reason]}"
