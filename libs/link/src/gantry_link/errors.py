"""What can go wrong between two processes. Every error says whether bytes may have reached the other side.

`sent` False: the request surely never left, so it may be repeated anywhere. True: it may have been done.
"""

from __future__ import annotations


class LinkError(Exception):
    """The link failed, not the request. Look at `sent` before repeating it elsewhere."""

    def __init__(self, words: str, *, sent: bool) -> None:
        super().__init__(words)
        self.sent = sent


class NotConnected(LinkError):
    """There is no connection to the address. Nothing was sent: try another broker, or the same one later."""

    def __init__(self, words: str) -> None:
        super().__init__(words, sent=False)


class ConnectionBusy(LinkError):
    """Too many calls or bytes already wait on this connection. Nothing was sent: slow down."""

    def __init__(self, words: str) -> None:
        super().__init__(words, sent=False)


class ConnectionLost(LinkError):
    """The connection ended before the answer came."""


class RequestTimedOut(LinkError):
    """No answer within the time the caller gave."""


class UnreadableAnswer(LinkError):
    """An answer came whose body is not what its request has: nothing can be said of what it meant."""

    def __init__(self, words: str) -> None:
        super().__init__(words, sent=True)


class BrokerRefused(Exception):
    """The other side answered with an error code. `code` is a ResponseCode or a number unknown to us."""

    def __init__(self, code: int, remark: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(f"code {int(code)}: {remark}")
        self.code = code
        self.remark = remark
        self.fields: dict[str, str] = fields or {}
