"""What doors know about the other end of a connection, and the step that makes it an inner one."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from gantry_access.model.networks import SourceAddress
from gantry_guard.audit import Asked, Audit
from gantry_guard.introduction import Introductions
from gantry_link.serving.peer import Peer
from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command

INTRODUCTION: Final = frozenset({int(GantryCode.INTRODUCE), int(GantryCode.PROVE)})

_NAMES: Final = {int(code): code.name for code in (*RequestCode, *GantryCode)}
SIGNED_BY: Final = "access signed"
"""Attribute of a peer: the user that signed its last signed request."""
ACTING_USER: Final = "access user"
"""Attribute of a peer: the user of its last request, by signature or certificate. Stores read it, too."""
ADMITTED: Final = "access admitted"
"""Attribute of a peer: what its last request that may be held was admitted for, an `Admitted`. Stores read it, too."""
_SOURCE = "access source"


class Connected(Protocol):
    """The other end of a connection, as far as its address and what doors know about it go."""

    @property
    def remote(self) -> tuple[str, int]:
        """Address and port of the other end."""
        ...

    @property
    def attributes(self) -> dict[str, Any]:
        """What is kept with the connection."""
        ...


class Source(NamedTuple):
    """The address that a connection comes from."""

    address: SourceAddress
    text: str
    """Without the port."""


def source_of(peer: Connected) -> Source:
    """Return the address of a peer's other end, parsed once per connection. Raises MalformedNetwork if it has none."""
    found: Source | None = peer.attributes.get(_SOURCE)
    if found is None:
        address = SourceAddress.parse(peer.remote[0])
        found = peer.attributes[_SOURCE] = Source(address, address.text)
    return found


def request_name(code: int) -> str:
    """Return the name of a request code, or its number."""
    return _NAMES.get(code) or str(code)


def introduce(introductions: Introductions, audit: Audit, peer: Peer, command: Command) -> None:
    """Answer one step of an introduction; a refused one is audited. Raises RefusedRequest, or MissingField."""
    step = introductions.introduce if command.code == GantryCode.INTRODUCE else introductions.prove
    try:
        step(peer, command)
    except WireError:
        audit.refused(Asked("", source_of(peer).text, request_name(command.code)), "not_proven")
        raise
