"""Decides which requests of web pages are accepted. Pure: headers in, a refusal out.

A browser sends what any open page asks for, from inside this machine and its network, where no access control
applies. The browser writes the headers that reveal such a request, and no page can change them: `Origin` and
`Sec-Fetch-Site` name the page's origin, `Host` the name by which the page found this service. A page whose owner
points its name at this machine (DNS rebinding) has the same origin as this service, but not one of its names. An
address in `Host` cannot be pointed elsewhere, so all are accepted. Programs send no `Origin`.
"""

import ipaddress
import socket
from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta

ANY = "*"
HOSTS_REMEMBERED_MAX = 256
"""Number of accepted `Host` values that are cached; refused ones are checked each time."""
SHOWN_MAX = 127
"""Longest part of a header that a refusal quotes."""
_SAME = frozenset({b"same-origin", b"none"})
"""Of `Sec-Fetch-Site`: the page is our own, or the user typed the address."""
_READS = frozenset({"GET", "HEAD"})


AllowedHosts = Annotated[
    str,
    Meta(
        description="Names HTTP requests may use besides addresses, localhost, the host's name and `listen`; separated by commas, * for all."
    ),
]
"""The setting of every service with HTTP."""


class Refusal(NamedTuple):
    """Why a request is refused: the header at fault, and what to do."""

    header: str
    words: str


class WebPages:
    """The rules of one service."""

    def __init__(self, listen: str, allowed_hosts: str = "", allowed_origins: str | None = None) -> None:
        """Set the rules.

        `allowed_origins` lists the origins of pages that may call, separated by commas; None where no setting allows
        any.
        """
        hosts = parts_of(allowed_hosts)
        self._takes_any_host = ANY in hosts
        ours = {"localhost", socket.gethostname(), listen, *hosts}
        self._names = frozenset(name.lower().rstrip(".") for name in ours)
        self._has_setting = allowed_origins is not None
        self._origins = frozenset(origin.encode() for origin in parts_of(allowed_origins or ""))
        self._ours: set[bytes] = set()

    @property
    def has_origins(self) -> bool:
        """Whether pages of other origins may call."""
        return bool(self._origins)

    def is_allowed(self, origin: bytes) -> bool:
        """Whether the setting lets pages of this origin call."""
        return origin in self._origins or ANY.encode() in self._origins

    def refusal(self, method: str, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Return why a request with these headers (lower-case names) is refused; None when it is accepted."""
        host = headers.get(b"host")
        if host is not None and host not in self._ours and not self._is_ours(host):
            message = (
                f"this service is not named {_shown(host)}, as the request says: use its address or localhost, "
                "or add the name to the setting allowed_hosts"
            )
            return Refusal("Host", message)
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin is None:
            if site is None or site in _SAME or self.is_allowed(b""):
                return None
            return None if _is_visit(method, headers) else self._foreign("Sec-Fetch-Site", "another origin")
        if self.is_allowed(origin):
            return None
        if host is None or not _is_same(origin, host):
            return self._foreign("Origin", _shown(origin))
        return None if site is None or site in _SAME else self._foreign("Sec-Fetch-Site", "another origin")

    def _is_ours(self, host: bytes) -> bool:
        name = _name_of(host.decode("latin-1"))
        if not (self._takes_any_host or name in self._names or _is_address(name)):
            return False
        if len(self._ours) < HOSTS_REMEMBERED_MAX:
            self._ours.add(host)
        return True

    def _foreign(self, header: str, whose: str) -> Refusal:
        remedy = "; to let them in, add their origin to the setting cors_origins" if self._has_setting else ""
        return Refusal(header, f"web pages of {whose} may not call this service{remedy}")


def is_of_another_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser says that a page of another origin makes a call, or that a link on such a page was followed.

    A browser shows a client certificate by itself, whichever page asks. So a certificate is no proof of such a call, not even where
    `cors_origins` lets the page call.
    """
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    if site is not None and site not in _SAME:
        return True
    return origin is not None and not _is_same(origin, headers.get(b"host", b""))


def parts_of(text: str) -> list[str]:
    """Split a setting at commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_visit(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a user follows a link to us: the page with the link does not see the answer."""
    return (
        method in _READS
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _is_same(origin: bytes, host: bytes) -> bool:
    """Whether an origin is the host a request was sent to. The scheme may be https when a proxy ends TLS in front of us."""
    scheme, _, authority = origin.partition(b"://")
    return scheme in {b"http", b"https"} and authority.lower() == host.lower()


def _name_of(host: str) -> str:
    """Return the name or address of a `Host`, without its port."""
    name, bracket, rest = host.removeprefix("[").partition("]")
    if not host.startswith("["):
        name, colon, port = host.partition(":")
        bracket, rest = "]", colon + port
    is_whole = bool(bracket) and (not rest or (rest[0] == ":" and rest[1:].isdecimal()))
    return name.lower().removesuffix(".") if is_whole else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shown(value: bytes) -> str:
    """Return a header's value in the form a refusal may quote."""
    text = value.decode("ascii", "replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text[:SHOWN_MAX])
