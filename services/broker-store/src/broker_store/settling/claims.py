"""Which owner works on which system queue: at most one each, identified by its epoch. Pure: callers pass owner and time.

A claim ends by its time, by its release, or with its connection. Every new claim has a higher epoch than
all before, also across restarts: boot count << 40 | a number that grows by random steps. So requests of a
replaced owner are refused, and so are guessed epochs.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker_store.log.files.files import SPACE_ERRORS, Files, make_durable_dirs
from broker_store.log.settings import RESERVE_FILE
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.private_requests.settling import FENCED, HELD

QueueKey = tuple[str, int]
"""Topic and queue id."""

_RANDOM_PART = re.compile(r"-[0-9a-f]{8,}(?![0-9A-Za-z])")
_EPOCH_BITS = 40
_BOOT_BITS = 23
_STEPS_BITS = 20
"""A step is at most 2^-20 of the remaining numbers, so a boot can grant a million claims by large steps, and more by smaller ones."""


@dataclass(slots=True)
class Claim:
    """A claim that is valid, or expired and not taken by another owner yet."""

    owner: str
    address: str
    epoch: int
    ttl_ms: int
    until_ms: int
    """On the clock of `now_ms`, which is monotonic."""
    peer_id: int

    @property
    def shown_owner(self) -> str:
        """Return the owner without its random part, which is secret: it allows renewal of the claim."""
        return _RANDOM_PART.sub("", self.owner)


class ClaimTable:
    """All claims of this store. `now_ms` is a clock that wall clock steps do not affect."""

    def __init__(self, boot_count: int, draw: Callable[[int], int]) -> None:
        """`draw` returns an unpredictable number from 0 to below its argument."""
        self._draw = draw
        self._base = boot_count << _EPOCH_BITS
        self._number = draw(1 << (_EPOCH_BITS - 1))
        self._claims: dict[QueueKey, Claim] = {}

    def claim(
        self, keys: Sequence[QueueKey], owner: str, address: str, ttl_ms: int, peer_id: int, now_ms: int
    ) -> list[Claim]:
        """Grant or renew the claims on all these queues, in their order.

        Raises RefusedRequest (HELD) while another owner holds one of them, with the holder of the first such queue. Then nothing
        was granted or renewed: two owners never wait for each other with a part of the queues each.
        """
        for key in keys:
            found = self._claims.get(key)
            if found is not None and found.owner != owner and found.until_ms > now_ms:
                raise _held(key, found, now_ms)
        return [self._grant(key, owner, address, ttl_ms, peer_id, now_ms) for key in keys]

    def _grant(
        self, key: QueueKey, owner: str, address: str, ttl_ms: int, peer_id: int, now_ms: int
    ) -> Claim:
        found = self._claims.get(key)
        if found is None or found.owner != owner:
            left = (1 << _EPOCH_BITS) - self._number
            self._number += 1 + self._draw(max(1, left >> _STEPS_BITS))
            found = Claim(owner, address, self._base | self._number, ttl_ms, 0, peer_id)
            self._claims[key] = found
        found.address, found.ttl_ms, found.peer_id = address, ttl_ms, peer_id
        found.until_ms = now_ms + ttl_ms
        return found

    def check(self, key: QueueKey, epoch: int, now_ms: int) -> None:
        """Renew the claim with this epoch. Raises RefusedRequest (FENCED) when it is not the newest of this queue.

        An expired claim that no other owner took continues: no other decision can have come between.
        """
        found = self._claims.get(key)
        if found is None or found.epoch != epoch:
            raise _fenced(key, epoch, found)
        found.until_ms = max(found.until_ms, now_ms + found.ttl_ms)

    def holder(self, key: QueueKey, now_ms: int) -> Claim | None:
        """Return the valid claim."""
        found = self._claims.get(key)
        return found if found is not None and found.until_ms > now_ms else None

    def release(self, key: QueueKey, epoch: int) -> bool:
        """End a claim. False when it is not the newest."""
        found = self._claims.get(key)
        if found is None or found.epoch != epoch:
            return False
        del self._claims[key]
        return True

    def close_peer(self, peer_id: int) -> list[QueueKey]:
        """End all claims of a connection. Returns their queues."""
        gone = [key for key, claim in self._claims.items() if claim.peer_id == peer_id]
        for key in gone:
            del self._claims[key]
        return gone

    def all(self, now_ms: int) -> dict[QueueKey, Claim]:
        """Return the valid claims."""
        return {key: claim for key, claim in self._claims.items() if claim.until_ms > now_ms}


def raise_boot_count(files: Files, store_directory: str) -> int:
    """Count this start in `gantry/boots`. Durable on return. Raises OSError; no claim may then be granted."""
    path = f"{store_directory}/gantry/boots"
    make_durable_dirs(files, f"{store_directory}/gantry")
    text = (files.read_bytes(path) or b"").strip()
    count = int(text) if text.isdigit() else 0
    count = (count + 1) % (1 << _BOOT_BITS)
    content = b"%d\n" % count
    try:
        files.replace_atomically(path, content)
    except OSError as error:
        if error.errno not in SPACE_ERRORS:
            raise
        files.remove(f"{store_directory}/{RESERVE_FILE}")  # a store that cannot start could not even be read
        files.replace_atomically(path, content)
    return count


def _held(key: QueueKey, claim: Claim, now_ms: int) -> RefusedRequest:
    left_ms = claim.until_ms - now_ms
    return RefusedRequest(
        ResponseCode.SYSTEM_BUSY,
        f"queue {key[1]} of topic[{key[0]}] is claimed by {claim.shown_owner} at {claim.address} for {left_ms} ms more",
        {"gantryCode": HELD, "heldBy": claim.shown_owner, "address": claim.address, "leftMs": str(left_ms)},
    )


def _fenced(key: QueueKey, epoch: int, claim: Claim | None) -> RefusedRequest:
    by = f"; {claim.shown_owner} at {claim.address} holds it" if claim is not None else ""
    fields = {"gantryCode": FENCED}
    if claim is not None:
        fields |= {"heldBy": claim.shown_owner, "address": claim.address}
    return RefusedRequest(
        ResponseCode.ILLEGAL_OPERATION,
        f"epoch {epoch} of queue {key[1]} of topic[{key[0]}] is over{by}: nothing was done, claim the queue again",
        fields,
    )
