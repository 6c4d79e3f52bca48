"""All errors of the SDK: what happened, what to do, and the broker's response code if there is one. Raises nothing itself."""

from __future__ import annotations

from gantry_link.errors import BrokerRefused, LinkError, RequestTimedOut
from gantry_wire.codes import RETRYABLE, ResponseCode
from gantry_wire.errors import WireError

_ADVICE: dict[int, str] = {
    1: "the broker failed; see its log",
    2: "the broker is overloaded: send more slowly, or give it more time",
    3: "the broker does not know this request: it is older than the feature asked for",
    13: "shorten the message or its topic, or choose an earlier instant: the remark names the limit",
    14: "the broker accepts nothing now (disk full, a slave, or stopping): check its health",
    16: "the topic, the group or the account lacks this permission, or the access or secret key is wrong",
    17: "create the topic (`gantrymq topic create NAME`), or allow brokers to create topics",
    22: "the broker has nothing under this name",
    23: "correct the subscription expression",
    24: "the group has not subscribed this topic: wait for the next heartbeat",
    25: "the broker knows a newer subscription of the group: do all its members have the same subscriptions?",
    26: "create the group, or allow brokers to create groups",
    29: "correct the argument the remark names",
    206: "start a consumer of the group first",
    604: "it is too late, or the handle is of another topic",
}
_ADVICE_OF_REASON: dict[str, str] = {
    "IDEMPOTENCY_CONFLICT": "give new content a new key; this key belongs to the content that was sent with it first",
    "DELAY_TOO_LONG": "choose an earlier instant: the remark names the limit",
    "DELAY_ILLEGAL": "give a whole number of the unit the property names",
    "DISK_FULL": "free space on the broker's disk, or shorten its retention",
    "STORE_STOPPED": "the broker's log was stopped by a fault: its own log says which, and what to do",
    "INDEX_BUILDING": "ask again when the broker has built its index",
    "NOT_SERVING": "the broker starts or stops: it will accept this again soon",
    "NOT_LEADER": "another replica leads the broker: it accepts this; the route names it in a moment",
    "NO_LEASE": "try again in a moment: the leader has just taken over, or does not hear every replica in sync",
    "TOO_FEW_REPLICAS": "start the broker's other replicas: fewer are in sync than min_in_sync",
    "REPAIR_AWAITED": "try again when the broker's other replicas run: a record is damaged at the one that was asked",
    "FIRST_UNKNOWN": "send it again with the same key",
    "RESULT_UNKNOWN": "it may be stored: send it again with the same key, if it has one",
}
"""By Gantry's word (`gantryCode` of docs/protocol.md), where the code alone is not specific enough."""


class GantryError(Exception):
    """Base of all errors of the SDK. `code` is the broker's response code, or None; `retryable` whether the same call may succeed later."""

    code: int | None = None
    retryable: bool = False


class ConfigurationError(GantryError, ValueError):
    """A setting is wrong or contradicts another. Nothing was started."""


class InvalidMessage(GantryError, ValueError):
    """A message breaks a rule and was not sent. `field` names the part."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}")
        self.field = field


class NotRunning(GantryError):
    """The client was not started, or is closed already."""


class NoRoute(GantryError):
    """No nameserver knows the address of the topic, or of the broker."""

    code: int | None = int(ResponseCode.TOPIC_NOT_EXIST)
    retryable = True


class ConnectionFailed(GantryError):
    """The connection could not be made, or ended early. `sent`: whether the request may have been carried out."""

    retryable = True

    def __init__(self, words: str, *, sent: bool) -> None:
        super().__init__(words)
        self.sent = sent


class TimedOut(GantryError, TimeoutError):
    """No answer within the given time. `sent`: whether the request may have been carried out."""

    retryable = True

    def __init__(self, words: str, *, sent: bool) -> None:
        super().__init__(words)
        self.sent = sent


class Refused(GantryError):
    """The broker or the nameserver answered with an error: `code` is its response code, `remark` its text.

    `reason` is Gantry's word for it (`gantryCode` of docs/protocol.md), None from other brokers.
    """

    def __init__(self, code: int, remark: str, doing: str = "", reason: str | None = None) -> None:
        advice = _ADVICE_OF_REASON.get(reason or "") or _ADVICE.get(code)
        words = f"code {code}: {remark or 'no remark'}"
        super().__init__(
            f"{doing + ' was refused, ' if doing else ''}{words}{f' ({advice})' if advice else ''}"
        )
        self.code: int | None = code
        self.remark = remark
        self.reason = reason
        self.retryable: bool = code in RETRYABLE


def in_doubt(error: GantryError) -> GantryError:
    """Return the last error of several tries as one that says that an earlier one, without an answer, may have been carried out."""
    if isinstance(error, ConnectionFailed | TimedOut) and error.sent:
        return error
    kind = TimedOut if isinstance(error, TimedOut) else ConnectionFailed
    doubt = kind(f"{error}; an earlier try got no answer, and may have been carried out", sent=True)
    doubt.__cause__ = error
    return doubt


def sdk_error(error: BrokerRefused | LinkError | WireError, doing: str) -> GantryError:
    """Return an error of the link as one of the SDK. `doing` names the attempt, as in "sending to T"."""
    if isinstance(error, WireError):
        return Refused(int(ResponseCode.SYSTEM_ERROR), f"the answer cannot be read: {error}", doing)
    if isinstance(error, BrokerRefused):
        return Refused(int(error.code), error.remark, doing, error.fields.get("gantryCode"))
    if isinstance(error, RequestTimedOut):
        return TimedOut(f"{doing}: {error}", sent=error.sent)
    return ConnectionFailed(f"{doing}: {error}", sent=error.sent)
