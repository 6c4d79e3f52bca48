"""Errors of connections and calls. Every LinkError states whether the request may have reached the other side.

`sent` False: the request was not sent, so it may be repeated anywhere. True: it may have been executed.
"""

from __future__ import annotations


class LinkError(Exception):
    """The connection failed, not the request. Check `sent` before repeating it elsewhere."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class NotConnected(LinkError):
    """There is no connection to the address. Nothing was sent: try another broker, or this one later."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class ConnectionBusy(LinkError):
    """Too many calls or bytes are queued on this connection. Nothing was sent: slow down."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class ConnectionLost(LinkError):
    """The connection ended before the answer arrived."""


class RequestTimedOut(LinkError):
    """No answer arrived within the caller's time-out."""


class UnreadableAnswer(LinkError):
    """The body of an answer does not have the form that the request requires."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class BrokerRefused(Exception):
    """The other side answered with an error code. `code` is a ResponseCode or an unknown number."""

    def __init__(self, code: int, remark: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(f"code {int(code)}: {remark}")
        self.code = code
        self.remark = remark
        self.fields: dict[str, str] = fields or {}
