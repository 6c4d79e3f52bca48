"""The gateway's port to what replicas say about themselves."""

from typing import Any, Protocol


class Replicas(Protocol):
    """Asks stores for their part in a broker group."""

    async def state(self, address: str) -> dict[str, Any] | None:
        """Return what the store at a remoting address says at `GET /v1/replication`; None if it does not answer, or has no replicas."""
        ...

    async def move_leader(self, address: str, to: str) -> str:
        """Let the leader at a remoting address hand over to the replica `to`, empty for the best one that is in sync. Returns before that is done.

        Returns why it refuses, else an empty text. Raises PeerAway without an answer.
        """
        ...
