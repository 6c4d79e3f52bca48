"""The door of an HTTP port: what decides whether a call may be answered. The chassis knows no users and no rights."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

Certificate = Mapping[str, Any]
"""A verified certificate, in the form of `ssl.SSLSocket.getpeercert`."""
CERTIFICATE = "gantry.certificate"
"""The key of the client's verified certificate in the ASGI scope of a call; absent without one."""


class Incoming(NamedTuple):
    """The head of one call. Its body is not read yet: a client that may not call must not make a process keep one."""

    method: str
    """That of its route: GET for a HEAD that a GET route answers."""
    path_template: str
    """The path of its route, as `/snapshots/{id}`."""
    headers: Mapping[bytes, bytes]
    """By lower-case name."""
    path_params: Mapping[str, str]
    query: Mapping[str, str]
    address: str
    """The client's IP address."""
    certificate: Certificate | None
    """The verified certificate that the client of the connection showed."""


class Denial(NamedTuple):
    """Why a call is not answered."""

    status: int
    """401 or 403; 400 if what the call requires cannot be read from it, 503 if nothing can be decided yet."""
    words: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Authorizer(Protocol):
    """Decides about every call of a port."""

    def demand_routes(self, routes: Iterable[tuple[str, str]]) -> None:
        """Raise StartRefused if it has no rule about one of these routes (method, path template)."""
        ...

    def admits_unknown(
        self, headers: Mapping[bytes, bytes], address: str, certificate: Certificate | None
    ) -> Denial | None:
        """Return why a call of a path that the port does not have gets no 404."""
        ...

    def authorize(self, incoming: Incoming) -> Denial | None:
        """Return why a call is refused; None: its handler may run."""
        ...
