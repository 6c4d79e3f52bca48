"""Access control: an optional bearer token, the gateway's own web pages, and pages of allowed origins. Pure but for the call."""

import hmac
from collections.abc import Mapping

from gantry_chassis.http.web_pages import WebPages
from gateway.http.call import Call, Reply
from gateway.http.problems import Problem, forbidden

OPEN_PATHS = ("/", "/health/live", "/health/ready", "/docs", "/openapi.json")
"""Need no token: probes send none, and the API description is public."""
_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_EXPOSED = b"x-request-id, retry-after"
_PREFLIGHT_SECONDS = b"600"


class Access:
    """Checks the token and the origin of web pages, answers CORS preflights, and adds CORS headers to replies."""

    def __init__(self, token: str, pages: WebPages) -> None:
        self._token = token.encode()
        self._pages = pages

    @property
    def has_token(self) -> bool:
        """Whether calls need a token."""
        return bool(self._token)

    @property
    def has_origins(self) -> bool:
        """Whether pages of other origins may call."""
        return self._pages.has_origins

    def check(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise 403 for a page of a forbidden origin, 401 for a missing or wrong token on a protected path."""
        refusal = self._pages.refusal(method, headers)
        if refusal is not None:
            raise forbidden(refusal.words, refusal.header)
        if not self._token or path in OPEN_PATHS:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
            problem = Problem(
                401, "UNAUTHORIZED", "add the header Authorization: Bearer …", field="Authorization"
            )
            problem.headers.append((b"www-authenticate", b"Bearer"))
            raise problem

    def browser(self, call: Call) -> Reply | None:
        """Add the CORS headers of an allowed origin; return the reply to a preflight."""
        if not self._pages.has_origins:
            return None
        call.extra_headers.append((b"vary", b"origin"))
        origin = call.headers.get(b"origin")
        if origin is None or not self._pages.is_allowed(origin):
            return None
        call.extra_headers += [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _EXPOSED),
        ]
        if call.method != "OPTIONS" or b"access-control-request-method" not in call.headers:
            return None
        asked = call.headers.get(b"access-control-request-headers", b"content-type, authorization")
        allowed = (
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", _PREFLIGHT_SECONDS),
        )
        return Reply(204, b"", headers=allowed)
