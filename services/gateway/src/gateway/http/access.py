"""Who may call: users with their rights, or else holders of the one token, if it is set; and pages of allowed origins. Pure but for the call."""

import hmac
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gantry_chassis.http.authorizing import Denial
from gantry_chassis.http.web_pages import WebPages
from gantry_wire.errors import MalformedBody
from gateway.http.call import Call, Reply
from gateway.http.problems import Problem, denied, forbidden, invalid

if TYPE_CHECKING:
    from gantry_guard.http_callers import Caller
    from gantry_guard.http_door import Admission, HttpDoor

Route = tuple[str, str]
"""Method and path template of a call."""
Moment = tuple[int, int]
_OFF: Moment = (0, 0)
Gate = Callable[[str], "Admission | None"]
"""Returns the admission of the call of a client at this address; None: it has to be decided in full."""
OPEN_PATHS = ("/", "/health/live", "/health/ready", "/docs", "/openapi.json")
"""Need no token: probes send none, and the API description is public."""
UNKNOWN_PATH = "unknown path"
"""Names a call of a path that does not exist in the audit log."""
_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_EXPOSED = b"x-request-id, retry-after"
_PREFLIGHT_SECONDS = b"600"


class Access:
    """Checks credentials, rights and the origin of web pages, answers CORS preflights, and adds CORS headers to replies."""

    def __init__(self, token: str, pages: WebPages, door: "HttpDoor | None") -> None:
        """`door` knows users and rights: access control is on. With both, who proves no user and is permitted nevertheless needs the token."""
        self._token = token.encode()
        self._pages, self._door = pages, door

    @property
    def has_users(self) -> bool:
        """Whether each call needs a user with its rights."""
        return self._door is not None

    @property
    def has_token(self) -> bool:
        """Whether calls need a token."""
        return bool(self._token)

    @property
    def has_origins(self) -> bool:
        """Whether pages of other origins may call."""
        return self._pages.has_origins

    def check(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise 403 for a page of a forbidden origin, 401 for a missing or wrong token on a protected path.

        Users and rights are for `admit`.
        """
        refusal = self._pages.refusal(method, headers)
        if refusal is not None:
            raise forbidden(refusal.words, refusal.header)
        if self._door is None and path not in OPEN_PATHS:
            self._check_token(headers)

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if not self._token:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
            problem = Problem(
                401, "UNAUTHORIZED", "add the header Authorization: Bearer …", field="Authorization"
            )
            problem.headers.append((b"www-authenticate", b"Bearer"))
            raise problem

    def demand_routes(self, routes: Iterable[Route]) -> None:
        """Raise StartRefused if access control is on and has no row of rights for one of these routes."""
        if self._door is not None:
            self._door.demand_routes(routes)

    def admit_unknown(self, call: Call) -> None:
        """Raise 401 for a call of a path or method that does not exist: only users learn which there are."""
        if self._door is not None:
            self._caller_of(self._door, call, UNKNOWN_PATH)

    def caller_of(self, call: Call, route: Route) -> "Caller | None":
        """Return who calls, to be admitted. None: access control is off, has admitted the call, or the route is open. Raise 401."""
        door = self._door
        if door is None or call.admission is not None or door.is_open(route):
            return None
        return self._caller_of(door, call, " ".join(route))

    def _caller_of(self, door: "HttpDoor", call: Call, request: str) -> "Caller":
        found = door.caller_of(call.headers, call.client, call.certificate, request)
        if isinstance(found, Denial):
            raise denied(found)
        if found.is_permitted:
            self._check_token(call.headers)
        return found

    @property
    def moment(self) -> Moment:
        """What users, policies, tokens and keys are now: another value once any has changed."""
        return _OFF if self._door is None else self._door.versions

    def check_again(self, call: Call, route: Route, fields: Mapping[str, str], since: Moment) -> None:
        """Verify and decide a call that has waited once more, if anything has changed since that moment. Raise 401, 403.

        `fields` are those that its rights depend on; they must not depend on its body.
        """
        if self._door is not None and self._door.versions != since:
            caller = self._caller_of(self._door, call, " ".join(route))
            self.admit(call, caller, route, fields, None)

    def caller_again(self, call: Call, caller: "Caller", route: Route, since: Moment) -> "Caller":
        """Return who calls, once the body has come: verified again if anything has changed since that moment, or what proved it has ended.

        Raise 401.
        """
        door = self._door
        assert door is not None, "only a door returns callers"
        return caller if door.is_still(caller, since) else self._caller_of(door, call, " ".join(route))

    def check_read(
        self, call: Call, caller: "Caller", route: Route, fields: Mapping[str, str], since: Moment
    ) -> None:
        """Decide a call once more, once its body has come, if its caller has to be verified again. Raise 401, 403."""
        found = self.caller_again(call, caller, route, since)
        if found is not caller:
            self.admit(call, found, route, fields, None)

    def reads_body(self, route: Route) -> bool:
        """Whether the rights of a route depend on the body of a call."""
        return self._door is not None and self._door.reads_body(route)

    def admit(
        self, call: Call, caller: "Caller", route: Route, fields: Mapping[str, str], body: bytes | None
    ) -> None:
        """Admit a call with these decoded parameters. Raise 403 if its caller lacks a right.

        `body` is the whole body if the rights depend on it.
        """
        assert self._door is not None, "only a door returns callers"
        try:
            found = self._door.admit(caller, route, fields, body or b"", call.client)
        except MalformedBody as error:
            raise invalid("body", str(error)) from error
        if isinstance(found, Denial):
            raise denied(found)
        call.admit(found, body)

    def gate(self, headers: Mapping[bytes, bytes], route: Route, in_path: Mapping[str, str]) -> Gate:
        """Return what decides about calls with these headers. Only with access control."""
        assert self._door is not None, "there is something to decide"
        given = self._door.fast_pass(headers, route, in_path)
        return _shut if given is None else partial(self._door.passes, given)

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


def _shut(_address: str) -> None:
    return None
