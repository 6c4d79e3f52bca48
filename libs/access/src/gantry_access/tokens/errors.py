"""Refusals of bearer tokens. None of them contains a token."""


class TokenRefused(Exception):
    """A token gives no access. Answer 401; the class is for the audit log, not for the client."""


class MalformedToken(TokenRefused):
    """A text is no token of ours: wrong prefix, length, letters or checksum. No lookup is needed."""


class TokenUnknown(TokenRefused):
    """No stored token has this hash: it was revoked, or never existed."""


class TokenExpired(TokenRefused):
    """The time of a token is over."""
