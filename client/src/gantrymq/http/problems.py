"""Converts the gateway's problems (RFC 9457) and httpx's failures to the SDK's errors. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gantry_wire.codes import ResponseCode
from gantrymq.errors import ConnectionFailed, GantryError, InvalidMessage, NoRoute, Refused, TimedOut

if TYPE_CHECKING:
    import ssl

    import httpx


class Problem(msgspec.Struct, rename="camel"):
    """The gateway's description of a refusal, of a whole call or of one message."""

    code: str = ""
    detail: str = ""
    title: str = ""
    status: int = 0
    field: str = ""
    retryable: bool = False
    retry_after_ms: int | None = None


_NOTHING = Problem()


class GatewayRefused(Refused):
    """The gateway refused: `name` is its code in words, `status` the HTTP status, `field` the part of the request to change.

    `code` is RocketMQ's response code if the refusal has one, else None.
    """

    def __init__(self, problem: Problem, doing: str) -> None:
        words = problem.detail or problem.title or f"status {problem.status}"
        GantryError.__init__(self, f"{doing} was refused, {problem.code or problem.status}: {words}")
        self.code: int | None = code_of(problem.code)
        self.remark = words
        self.retryable: bool = problem.retryable
        self.name: str = problem.code
        self.status: int = problem.status
        self.field: str = problem.field
        self.retry_after_ms: int | None = problem.retry_after_ms


def code_of(name: str) -> int | None:
    """Return RocketMQ's response code of a name; None if it has none."""
    try:
        return int(ResponseCode[name])
    except KeyError:
        return None


def problem_of(response: httpx.Response) -> Problem:
    """Return the problem of an unsuccessful answer; also of one from a proxy before the gateway."""
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        problem = Problem(title=response.reason_phrase, retryable=response.status_code in {502, 503, 504})
    problem.status = response.status_code
    return problem


def error_of(problem: Problem, doing: str, *, is_send: bool = False) -> GantryError:
    """Return a problem as the error to raise; a malformed send is a fault of the message, as before sending."""
    if problem.code == "TOPIC_NOT_EXIST":
        error = NoRoute(f"{doing}: {problem.detail}")
        error.retryable = False  # the gateway has just asked the nameservers
        return error
    if problem.code == "UNKNOWN_WHETHER_STORED":
        return TimedOut(f"{doing}: {problem.detail}", sent=True)
    if is_send and problem.status in {400, 413} and problem.code in {"INVALID_PARAMETER", "MESSAGE_ILLEGAL"}:
        return InvalidMessage(problem.field.rpartition(".")[2] or "message", problem.detail)
    return GatewayRefused(problem, doing)


def failure_of(error: httpx.TransportError | ssl.SSLError, doing: str, address: str) -> GantryError:
    """Return the error of a call without an answer; `sent` says whether it may have been carried out."""
    import httpx

    never_left = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    words = f"{doing}: {str(error) or type(error).__name__} (gateway {address})"
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(words, sent=not never_left)
    return ConnectionFailed(words, sent=not never_left)
