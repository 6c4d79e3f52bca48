"""What profiles need from outside: a way to call the gateway. The real one is in calls.py; tests have their own."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol


class Reply(Enum):
    """How a call ended."""

    DONE = "done"
    REFUSED = "refused"
    """429: not done, for now. Expected under load; no failure."""
    REJECTED = "rejected"
    """Surely not done: a failure."""
    UNKNOWN = "unknown"
    """Done or not, nobody can say: a failure."""


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
        """Whether it was done."""
        return self.reply is Reply.DONE


def reply_of(status: int) -> Reply:
    """Judge an HTTP status (0: there was no answer) by what docs/http-api.md says of errors."""
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
        """Make one call, counted under a name. `since` (second of the run) is when it was intended; statuses in `also` are no failures."""
        ...
