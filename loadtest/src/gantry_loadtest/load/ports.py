"""What profiles need from outside: a way to call the gateway. calls.py implements it; tests script it."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol


class Reply(Enum):
    """How a call ended."""

    DONE = "done"
    REFUSED = "refused"
    """429: not done for now. Expected under load; not a failure."""
    REJECTED = "rejected"
    """Definitely not done: a failure."""
    UNKNOWN = "unknown"
    """Done or not is unknown: a failure."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the gateway."""

    reply: Reply
    status: int
    body: dict[str, Any] = field(default_factory=dict[str, Any])
    ms: float = 0.0
    """Since it was intended."""

    @property
    def is_done(self) -> bool:
        """Whether the call succeeded."""
        return self.reply is Reply.DONE


def reply_of(status: int) -> Reply:
    """Judge an HTTP status (0: no answer) by the errors of docs/http-api.md."""
    if 200 <= status < 300:
        return Reply.DONE
    if status == 429:
        return Reply.REFUSED
    return Reply.REJECTED if 400 <= status < 500 or status in {501, 503, 507} else Reply.UNKNOWN


class Calls(Protocol):
    """One client of the gateway, used by one greenlet."""

    def call(
        self,
        name: str,
        method: str,
        path: str,
        json: Any = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        since: float | None = None,
        also: tuple[int, ...] = (),
    ) -> Answer:
        """Make one call, counted under a name.

        `since` is its intended second of the run; statuses in `also` are not failures.
        """
        ...
