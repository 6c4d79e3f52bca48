"""What a refused client reads. The texts are RocketMQ's, with one difference: an unknown user and a wrong signature are one text.

RocketMQ's two texts (`User:x is not found.`, `check signature failed.`) tell a stranger which names exist. For the same reason a
server answers the other texts only after the signature was verified.
"""

from __future__ import annotations

from typing import Final

from gantry_access.evaluation.verdicts import Reason, Verdict
from gantry_access.model.networks import SourceAddress
from gantry_wire.codes import ResponseCode

REFUSED_CODE: Final = ResponseCode.NO_PERMISSION
"""The response code of every refusal."""

USERNAME_MISSING: Final = "username cannot be null."
"""The request carries no access key."""
CREDENTIALS_WRONG: Final = "check signature failed."
"""The user is unknown, or the signature is not made with one of its secrets."""
AUTHENTICATION_FAILED: Final = "Authentication failed. Please verify the credentials and try again."
"""Authentication failed for a reason of the server's own."""
AUTHORIZATION_FAILED: Final = "Authorization failed. Please verify your access rights and try again."
"""Authorization failed for a reason of the server's own."""
CONTEXT_UNREADABLE: Final = "parse authorization context error."
"""The rights that a request needs cannot be read from it."""
CONTEXT_EMPTY: Final = "authorization context is empty."
"""The request named nothing that it needs."""


def refusal_text(verdict: Verdict, name: str, source: SourceAddress) -> str:
    """Return the remark for a user whose request was refused, with an address without its port."""
    user = f"User:{name}"
    match verdict.reason:
        case Reason.UNKNOWN_USER:
            return f"{user} not found."
        case Reason.USER_DISABLED:
            return f"{user} is disabled."
        case Reason.USER_EXPIRED:
            return f"{user} has expired."  # our own: RocketMQ's users do not expire
        case Reason.NO_NEEDS:
            return CONTEXT_EMPTY
        case Reason.DENIED | Reason.NO_MATCH:
            assert verdict.refused is not None
            why = "the decision is deny" if verdict.reason is Reason.DENIED else "no matched policies"
            resource = verdict.refused.resource.text
            return f"{user} has no permission to access {resource} from {source.text}, {why}."
        case Reason.SUPER_USER | Reason.ALLOWED:
            raise ValueError(f"the request of {user} was not refused")
