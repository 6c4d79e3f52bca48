"""Which requests of web pages are taken. Pure: headers in, a refusal in words out.

A browser sends what any open page asks of it, from inside this machine and its network, where no access control stands in the way. What
gives such a request away is written by the browser, and no page can change it: `Origin` and `Sec-Fetch-Site` name the page's origin, and
`Host` the name by which the page found this service. A page of a name that its owner points at this machine (DNS rebinding) is of the same
origin as this service, but not by a name of this service. An address in `Host` cannot be pointed elsewhere, so each one is taken. Programs
send no `Origin`.
"""

import ipaddress
import socket
from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta

ANY = "*"
HOSTS_REMEMBERED_MAX = 256
"""Values of `Host` that were found to be ours and are not looked at again; another one each time is looked at each time."""
SHOWN_MAX = 127
"""A refusal repeats no more of a header than this."""
_SAME = frozenset({b"same-origin", b"none"})
"""Of `Sec-Fetch-Site`: the page is our own, or the user typed the address."""
_READS = frozenset({"GET", "HEAD"})


AllowedHosts = Annotated[
    str,
    Meta(
        description="Names by which HTTP requests may be sent, beside addresses, localhost, the host's name and `listen`; divided by commas, * for all."
    ),
]
"""The setting of every service with HTTP."""


class Refusal(NamedTuple):
    """Why a request is not taken: the header that says so, and what to do."""

    header: str
    words: str


class WebPages:
    """The rule of one service."""

    def __init__(self, listen: str, allowed_hosts: str = "", allowed_origins: str | None = None) -> None:
        """`allowed_origins` are those of pages that may call, divided by commas; None where no setting lets them in."""
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
        """Whether pages of this origin may call by the setting."""
        return origin in self._origins or ANY.encode() in self._origins

    def refusal(self, method: str, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Return why a request with these headers (names in small letters) is not taken; None where it is."""
        host = headers.get(b"host")
        if host is not None and host not in self._ours and not self._is_ours(host):
            words = (
                f"this service has no name {_shown(host)}, by which the request was sent: use its address or localhost, "
                "or add the name to the setting allowed_hosts"
            )
            return Refusal("Host", words)
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


def parts_of(text: str) -> list[str]:
    """Return the parts of a setting that stand between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_visit(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether somebody follows a link to us: the page with the link does not see the answer."""
    return (
        method in _READS
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _is_same(origin: bytes, host: bytes) -> bool:
    """Whether an origin is that of the host a request was sent to. The scheme may be https where something in front of us ends TLS."""
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
    """Return a header's value as a refusal may repeat it."""
    text = value.decode("ascii", "replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text[:SHOWN_MAX])
