"""A peer that stands for another one, and passes everything on. What looks at answers, or replaces them, derives from it."""

from collections.abc import Awaitable
from typing import Any

from broker_store.ports import Peer
from gantry_wire.frames.command import Command


class PassingPeer:
    """See `Peer`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def id(self) -> int:
        """See `Peer.id`."""
        return self._peer.id

    @property
    def remote(self) -> tuple[str, int]:
        """See `Peer.remote`."""
        return self._peer.remote

    @property
    def attributes(self) -> dict[str, Any]:
        """See `Peer.attributes`."""
        return self._peer.attributes

    @property
    def is_closing(self) -> bool:
        """See `Peer.is_closing`."""
        return self._peer.is_closing

    def send(self, data: bytes) -> None:
        """See `Peer.send`."""
        self._peer.send(data)

    def send_parts(self, parts: list[bytes]) -> None:
        """See `Peer.send_parts`."""
        self._peer.send_parts(parts)

    def request(
        self, code: int, header: dict[str, str] | None, body: bytes, timeout: float
    ) -> Awaitable[Command]:
        """See `Peer.request`."""
        return self._peer.request(code, header, body, timeout)

    def close(self) -> None:
        """See `Peer.close`."""
        self._peer.close()
