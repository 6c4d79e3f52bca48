"""How Gantry's own services prove to each other, once per connection, that they have the cluster's keys.

The client sends a nonce. The server answers with its own and an HMAC over both, which proves it; then the client proves itself. Each proof names
its maker's side, so that one is useless as the other, and a nonce is used once. Both name the address to which the client connected, and the
server answers for its own addresses only. So a server cannot pass an introduction on to another one, neither to take the client's place there nor
to pass for that server.

A machine between two services that changes their bytes can still use the connection once it is introduced. Only TLS prevents that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Collection, Sequence
from typing import Final
from weakref import WeakSet

from gantry_access.errors import AccessError
from gantry_access.model.networks import SourceAddress
from gantry_chassis.logs.structured import get_logger
from gantry_link.connections.connection import Connection
from gantry_link.errors import LinkError, NotConnected
from gantry_link.serving.peer import Peer
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.introduction import (
    NONCE_SIZE,
    ROLE_CHARS_MAX,
    IntroduceHeader,
    IntroduceReplyHeader,
    ProveHeader,
)

INNER: Final = "inner"
"""Attribute of a peer that is one of Gantry's own services: its role."""
NOT_PROVEN: Final = "the introduction failed: the proof is not made with a key of this cluster."
UNREADABLE: Final = "the introduction is unreadable."
EVERY_ADDRESS: Final = "*"

_PENDING = "introduction"
_log = get_logger()
_SERVER, _CLIENT = b"gantry introduction 1, server", b"gantry introduction 1, client"
_OFF_MAX = 1000
"""Servers without access control that are remembered, so that each is logged once."""
_TEXT_MAX = 256
"""Characters of a nonce, a proof or an address."""
Said = tuple[bytes, bytes, bytes, bytes]
"""What both sides prove: the client's role, the address to which it connected, its nonce and the server's."""


class Introductions:
    """The server's side."""

    def __init__(
        self, inner: Sequence[bytes], secret_bytes: Callable[[int], bytes], addresses: Collection[str] = ()
    ) -> None:
        """`inner`: the secrets of ClusterKeys. `addresses`: `IP:port` under which others reach this service besides the connection's own; `*`: any."""
        assert inner, "a cluster has a key"
        self._inner = tuple(inner)
        self._secret_bytes = secret_bytes
        self._addresses = frozenset(addresses)

    def introduce(self, peer: Peer, command: Command) -> None:
        """Answer 9050 with a nonce and the server's proofs. Raises RefusedRequest."""
        peer.attributes.pop(_PENDING, None)
        header = command.read(IntroduceHeader)
        role = header.role
        if not 0 < len(role) <= ROLE_CHARS_MAX or not role.isascii() or not role.isprintable():
            raise RefusedRequest(ResponseCode.NO_PERMISSION, UNREADABLE)
        theirs = _nonce(header.nonce)
        if theirs is None or len(header.address) > _TEXT_MAX:
            raise RefusedRequest(ResponseCode.NO_PERMISSION, UNREADABLE)
        self._check_address(peer, header.address)
        ours = self._secret_bytes(NONCE_SIZE)
        said = role.encode(), header.address.encode(errors="replace"), theirs, ours
        proofs = " ".join(_text(_proof(key, _SERVER, *said)) for key in self._inner)
        peer.attributes[_PENDING] = said
        _answer(peer, command, IntroduceReplyHeader(nonce=_text(ours), proofs=proofs))

    def prove(self, peer: Peer, command: Command) -> None:
        """Accept 9051 if the client has proven itself: from then on the peer has the attribute INNER. Raises RefusedRequest.

        The nonces of the connection are used up, whatever the answer.
        """
        said: Said | None = peer.attributes.pop(_PENDING, None)
        proof = _bytes(command.read(ProveHeader).proof)
        if said is None or not _is_one_of(proof, [_proof(key, _CLIENT, *said) for key in self._inner]):
            raise RefusedRequest(ResponseCode.NO_PERMISSION, NOT_PROVEN)
        peer.attributes[INNER] = said[0].decode()
        _answer(peer, command, None)

    def _check_address(self, peer: Peer, address: str) -> None:
        """Raise RefusedRequest unless an address to which a client connected is one of this server."""
        here = endpoint_text(peer.local)
        if address == here or not self._addresses.isdisjoint((address, EVERY_ADDRESS)):
            return
        remark = (
            f"the introduction failed: the client connected to {address[:64]}, this is {here}. If a service or a "
            "router passes connections on, add that address to access_addresses."
        )
        raise RefusedRequest(ResponseCode.NO_PERMISSION, remark)


class _AccessOff(NotConnected):
    """The server has no access control: it does not know the request."""


class Introducer:
    """The client's side: call it with each new connection (`ConnectionPool(introduce=…)`)."""

    def __init__(
        self,
        inner: Sequence[bytes],
        role: str,
        secret_bytes: Callable[[int], bytes],
        *,
        is_permissive: bool = False,
    ) -> None:
        """`role`: the service's name, at most 64 characters. `is_permissive`: use a server without access control, too, and log it once."""
        assert inner, "a cluster has a key"
        assert 0 < len(role) <= ROLE_CHARS_MAX
        self._inner = tuple(inner)
        self._role = role
        self._secret_bytes = secret_bytes
        self._is_permissive = is_permissive
        self._introduced: WeakSet[Connection] = WeakSet()
        self._off: set[str] = set()

    def is_introduced(self, connection: Connection) -> bool:
        """Whether the server of a connection proved that it has the keys of the cluster. Only such a one is believed about users."""
        return connection in self._introduced

    async def __call__(self, connection: Connection) -> None:
        """Prove the server and this service to each other. Raises NotConnected, which says why they do not trust each other."""
        try:
            await self._introduce(connection)
        except _AccessOff as error:
            if not self._is_permissive:
                raise
            if connection.address not in self._off and len(self._off) < _OFF_MAX:
                self._off.add(connection.address)
                _log.warning(
                    "access control is off at another service; access_mode=permissive uses it nevertheless",
                    address=connection.address,
                    answer=str(error),
                )
            return
        self._introduced.add(connection)
        self._off.discard(connection.address)

    async def _introduce(self, connection: Connection) -> None:
        ours, address = self._secret_bytes(NONCE_SIZE), endpoint_text(connection.remote)
        asked = IntroduceHeader(role=self._role, nonce=_text(ours), address=address)
        answer = await _ask(connection, GantryCode.INTRODUCE, asked, if_unknown=_AccessOff)
        try:
            reply = answer.read(IntroduceReplyHeader)
        except WireError as error:
            raise NotConnected(
                f"{connection.address} answered no introduction: is access control on there?"
            ) from error
        theirs = _nonce(reply.nonce)
        if theirs is None or theirs == ours:
            raise NotConnected(f"{connection.address} answered the introduction without a nonce of its own")
        said = self._role.encode(), address.encode(), ours, theirs
        key = self._key_of(reply.proofs, said)
        if key is None:
            raise NotConnected(f"{connection.address} does not have the keys of this cluster")
        await _ask(connection, GantryCode.PROVE, ProveHeader(proof=_text(_proof(key, _CLIENT, *said))))

    def _key_of(self, proofs: str, said: Said) -> bytes | None:
        """Return our first key with which the server proved itself, or None."""
        made = [_bytes(text) for text in proofs[: 16 * _TEXT_MAX].split(" ")]
        for key in self._inner:
            expected = _proof(key, _SERVER, *said)
            if _is_one_of(expected, made):
                return key
        return None


def endpoint_text(endpoint: tuple[str, int]) -> str:
    """Return an IP address and a port as both sides of a connection write them."""
    host, port = endpoint
    try:
        host = SourceAddress.parse(host).text
    except AccessError:
        return f"{host}:{port}"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _ask(
    connection: Connection,
    code: GantryCode,
    header: IntroduceHeader | ProveHeader,
    *,
    if_unknown: type[NotConnected] = NotConnected,
) -> Command:
    """Return the answer to a step. Raises NotConnected; `if_unknown` where the server does not know the request."""
    try:
        answer = await connection.request(code, header)
    except NotConnected:
        raise
    except LinkError as error:
        raise NotConnected(f"no introduction to {connection.address}: {error}") from error
    if answer.code == ResponseCode.SUCCESS:
        return answer
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise if_unknown(f"access control is off at {connection.address}, and on here")
    raise NotConnected(f"{connection.address} refused the introduction: {answer.remark}")


def _proof(key: bytes, side: bytes, *said: bytes) -> bytes:
    """Return the HMAC over a side and what was said. Each part follows its length, so no two lists of parts are the same bytes."""
    content = b"".join(len(part).to_bytes(4) + part for part in (side, *said))
    return hmac.digest(key, content, hashlib.sha256)


def _is_one_of(proof: bytes, expected: Sequence[bytes]) -> bool:
    """Compare with all of them, each in constant time."""
    is_equal = False
    for one in expected:
        is_equal |= hmac.compare_digest(one, proof)
    return is_equal


def _nonce(text: str) -> bytes | None:
    found = _bytes(text)
    return found if len(found) == NONCE_SIZE else None


def _text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _bytes(text: str) -> bytes:
    """Return the bytes of a Base64 text; none for any other text."""
    if len(text) > _TEXT_MAX:
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _answer(peer: Peer, command: Command, header: IntroduceReplyHeader | None) -> None:
    if not command.is_oneway:
        peer.send(encode_response(ResponseCode.SUCCESS, command.opaque, header))
