"""RFC 9457 problems: every error code of the gateway, its HTTP status, and whether a retry makes sense.

Codes carry RocketMQ's names where RocketMQ has one. Knows no transport.
"""

from http import HTTPStatus
from urllib.parse import quote

import msgspec

from gantry_chassis.http.authorizing import Denial
from gantry_wire.codes import ResponseCode
from gantry_wire.names import GANTRY_SYSTEM_PREFIX
from gantry_wire.private_requests.leading import NO_LEASE, NOT_LEADER
from gateway.ports.stores import PeerAway, StoreRefused, Unusable

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_MS = 200
"""Wait before a retry when a store is busy: as long as a request may wait in the store's queue."""
NAME_SHOWN_MAX = 127
"""A problem repeats at most this many characters of a name: the limit of a valid name."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_MADE_BY_SYSTEM = (GANTRY_SYSTEM_PREFIX, "%RETRY%", "%DLQ%")
AWAY_RETRY_AFTER_MS = 500
"""Wait before a retry when a store is away: a killed store is back within about a second."""


class ProblemBody(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The body of a problem; `field` and `limit` name what to change in the request."""

    type: str
    title: str
    status: int
    code: str
    retryable: bool
    request_id: str
    detail: str = ""
    field: str = ""
    limit: str = ""
    retry_after_ms: int | None = None
    missing: list[str] = []
    column: int | None = None
    expected: str = ""


class Problem(Exception):
    """A refused request; `status` and `code` say why, `detail` what to do."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str = "",
        limit: str = "",
        retryable: bool = False,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.field, self.limit = field, limit
        self.retryable, self.retry_after_ms = retryable, retry_after_ms
        self.missing: list[str] = []
        self.column: int | None = None
        self.expected = ""
        """For an invalid expression: the column of the error (the first character is 1), and what is valid there."""
        self.headers: list[tuple[bytes, bytes]] = []

    def body(self, request_id: str) -> ProblemBody:
        """Return the body of this problem."""
        return ProblemBody(
            type="about:blank",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            code=self.code,
            retryable=self.retryable,
            request_id=request_id,
            detail=self.detail,
            field=self.field,
            limit=self.limit,
            retry_after_ms=self.retry_after_ms,
            missing=self.missing,
            column=self.column,
            expected=self.expected,
        )


class LeaderAway(Problem):
    """Another replica of a broker is about to lead, or the new leader may not grant yet: a call that may wait tries again."""


def leader_away(cause: Problem) -> LeaderAway:
    """Return a problem as one that passes when a replica leads."""
    problem = LeaderAway(
        cause.status, cause.code, cause.detail, retryable=True, retry_after_ms=cause.retry_after_ms
    )
    problem.missing = cause.missing
    return problem


def invalid(field: str, detail: str, limit: str = "") -> Problem:
    """Return 400: a field of the request is out of bounds."""
    return Problem(400, "INVALID_PARAMETER", detail, field=field, limit=limit)


def unprocessable(code: str, field: str, detail: str) -> Problem:
    """Return 422: the request is well formed but cannot be carried out."""
    return Problem(422, code, detail, field=field)


def topic_missing(topic: str) -> Problem:
    """Return 404: no store has the topic. Says how to create it, unless only the system creates such topics."""
    remedy = f"; create it with PUT /v1/topics/{quote(topic, safe='')}"
    if topic.startswith(_MADE_BY_SYSTEM):
        remedy = ""
    return Problem(404, "TOPIC_NOT_EXIST", f"topic {topic} does not exist{remedy}", field="topic")


def group_missing(group: str) -> Problem:
    """Return 404: no store knows the consumer group."""
    return Problem(
        404, "SUBSCRIPTION_GROUP_NOT_EXIST", f"consumer group {group} does not exist", field="group"
    )


def broker_missing(broker: str, field: str = "broker") -> Problem:
    """Return 404: neither the route nor the configured list has a broker of this name."""
    shown = broker if len(broker) <= NAME_SHOWN_MAX else f"{broker[:NAME_SHOWN_MAX]}…"
    return Problem(404, "BROKER_NOT_EXIST", f"broker {shown} is not known here", field=field)


def broker_away(broker: str) -> Problem:
    """Return 503: a known broker does not answer."""
    problem = away(f"broker {broker} is away; try again")
    problem.missing = [broker]
    return problem


def away(detail: str) -> Problem:
    """Return 503: something that the request needs is temporarily away."""
    return Problem(503, "SERVICE_NOT_AVAILABLE", detail, retryable=True, retry_after_ms=AWAY_RETRY_AFTER_MS)


def unknown_whether_stored(broker: str) -> Problem:
    """Return 504: the request was sent but not answered, so it may have succeeded or failed."""
    return Problem(
        504,
        "UNKNOWN_WHETHER_STORED",
        f"broker {broker} did not answer: unknown whether stored: retry with the same idempotency key",
        retryable=True,
        retry_after_ms=RETRY_AFTER_MS,
    )


def cut_off(method: str) -> Problem:
    """Return the problem of a request that was still running at the end of the drain."""
    if method in _READING:
        return away("the gateway stops, and this took too long; try again")
    return Problem(
        504,
        "UNKNOWN_WHETHER_STORED",
        "the gateway stops, and this took too long: unknown whether it was done: retry, a send with the same idempotency key",
        retryable=True,
        retry_after_ms=AWAY_RETRY_AFTER_MS,
    )


def forbidden(detail: str, field: str = "") -> Problem:
    """Return 403: nobody may do this over HTTP."""
    return Problem(403, "NO_PERMISSION", detail, field=field)


def denied(denial: Denial) -> Problem:
    """Return the problem of a call that access control refuses."""
    if denial.status == 503:
        return away(denial.words)
    if denial.status == 400:
        return invalid("", denial.words)
    code, field = _DENIED[denial.status]
    problem = Problem(denial.status, code, denial.words, field=field)
    problem.headers += denial.headers
    return problem


def check_denial(denial: Denial | None) -> None:
    """Raise the problem of a call that access control refuses; do nothing without one."""
    if denial is not None:
        raise denied(denial)


def rate_limited(retry_after_ms: int) -> Problem:
    """Return 429: a token bucket is empty."""
    return Problem(
        429,
        "RATE_LIMITED",
        f"the rate limit is used up; wait {retry_after_ms} ms",
        retryable=True,
        retry_after_ms=retry_after_ms,
    )


_DENIED = {401: ("UNAUTHORIZED", "Authorization"), 403: ("NO_PERMISSION", "")}

_BY_CODE: dict[int, tuple[int, bool]] = {
    ResponseCode.SYSTEM_ERROR: (503, True),
    ResponseCode.SYSTEM_BUSY: (429, True),
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: (501, False),
    ResponseCode.FLUSH_DISK_TIMEOUT: (504, True),
    ResponseCode.SLAVE_NOT_AVAILABLE: (504, True),
    ResponseCode.FLUSH_SLAVE_TIMEOUT: (504, True),
    ResponseCode.MESSAGE_ILLEGAL: (422, False),
    ResponseCode.SERVICE_NOT_AVAILABLE: (503, True),
    ResponseCode.NO_PERMISSION: (403, False),
    ResponseCode.TOPIC_NOT_EXIST: (404, False),
    ResponseCode.QUERY_NOT_FOUND: (404, False),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: (400, False),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: (404, False),
    ResponseCode.INVALID_PARAMETER: (400, False),
}
_BY_GANTRY_CODE: dict[str, tuple[int, bool]] = {
    "IDEMPOTENCY_CONFLICT": (422, False),
    "DISK_FULL": (507, True),
    "STORE_STOPPED": (503, True),
    "INDEX_BUILDING": (503, True),
    NOT_LEADER: (503, True),
    NO_LEASE: (503, True),
    "ACCESS_OFF": (501, False),
    "DELAY_TOO_LONG": (400, False),
    "DELAY_ILLEGAL": (400, False),
}
DISK_FULL_RETRY_AFTER_MS = 5000


def refused(error: StoreRefused) -> Problem:
    """Return the problem for a store's error response."""
    status, retryable = _BY_GANTRY_CODE.get(error.gantry_code) or _BY_CODE.get(error.code, (503, True))
    code = error.gantry_code or code_name(error.code)
    wait_ms = DISK_FULL_RETRY_AFTER_MS if status == 507 else RETRY_AFTER_MS
    return Problem(
        status,
        code,
        error.remark or f"the store refused with {code}",
        retryable=retryable,
        retry_after_ms=wait_ms if retryable else None,
    )


def unanswered(error: PeerAway, *, is_write: bool) -> Problem:
    """Return the problem for an unanswered call. Only a write that was sent has an unknown result."""
    if isinstance(error, Unusable):
        return away(f"{error}; try again")
    if error.sent and is_write:
        return unknown_whether_stored(error.peer)
    return broker_away(error.peer)


def problem_of(error: Exception) -> Problem | None:
    """Return the problem of an expected exception; None for an unexpected one."""
    match error:
        case Problem():
            return error
        case StoreRefused():
            return refused(error)
        case PeerAway():
            return unanswered(error, is_write=False)
        case _:
            return None


def code_name(code: int) -> str:
    """Return RocketMQ's name of a response code."""
    try:
        return ResponseCode(code).name
    except ValueError:
        return f"CODE_{code}"
