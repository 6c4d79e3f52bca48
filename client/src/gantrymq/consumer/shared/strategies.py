"""Distribution of a topic's queues among the members of a group: RocketMQ's six strategies, equal to the Java client's.

Pure. Every member computes all shares from the same two lists, so each queue has one owner as long as the lists agree.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Sequence
from hashlib import md5
from typing import Protocol

from gantrymq.message import MessageQueue

VIRTUAL_NODES = 10
"""Places on the ring per member (AllocateMessageQueueConsistentHash)."""
_HASH_BYTES = 4


class Strategy(Protocol):
    """Gives a member its queues. `queues` and `members` are sorted and the same for every member."""

    @property
    def name(self) -> str:
        """RocketMQ's name of the strategy."""
        ...

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of `member`; none if it is not among `members`."""
        ...


class Averagely:
    """Neighbouring queues in equal numbers, the first members one more (AllocateMessageQueueAveragely). The default."""

    name = "AVG"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """As `Strategy.allocate`."""
        if member not in members:
            return []
        index, share, rest = members.index(member), len(queues) // len(members), len(queues) % len(members)
        size = share + (index < rest)
        start = index * size if index < rest else index * size + rest
        return list(queues[start : start + size])


class AveragelyByCircle:
    """Queues dealt one by one (AllocateMessageQueueAveragelyByCircle)."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """As `Strategy.allocate`."""
        if member not in members:
            return []
        return list(queues[members.index(member) :: len(members)])


class ConsistentHash:
    """Members on a ring of MD5 hashes: few queues change their owner when a member joins or leaves."""

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        if virtual_nodes < 1:
            raise ValueError(
                f"virtual_nodes is {virtual_nodes}: a member needs at least one place on the ring"
            )
        self._virtual_nodes = virtual_nodes

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """As `Strategy.allocate`."""
        if member not in members:
            return []
        ring = {_hash(f"{node}-{place}"): node for node in members for place in range(self._virtual_nodes)}
        places = sorted(ring)
        mine: list[MessageQueue] = []
        for queue in queues:
            at = bisect.bisect_left(places, _hash(_java_text(queue)))
            if ring[places[at % len(places)]] == member:
                mine.append(queue)
        return mine


class MachineRoom:
    """Only queues of brokers named `room@name` in the given rooms, in equal numbers (AllocateMessageQueueByMachineRoom)."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        self._rooms = frozenset(rooms)
        if not self._rooms:
            raise ValueError("rooms is empty: name the machine rooms whose queues are consumed")

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """As `Strategy.allocate`."""
        if member not in members:
            return []
        ours = [queue for queue in queues if self._is_ours(queue)]
        index, share, rest = members.index(member), len(ours) // len(members), len(ours) % len(members)
        mine = ours[share * index : share * (index + 1)]
        if index < rest:
            mine.append(ours[index + share * len(members)])
        return mine

    def _is_ours(self, queue: MessageQueue) -> bool:
        parts = queue.broker.split("@")
        return len(parts) == 2 and parts[0] in self._rooms


class MachineRoomNearby:
    """Queues go to members in their own room; those of rooms without a member go to all (AllocateMachineRoomNearby)."""

    def __init__(
        self,
        room_of_member: Callable[[str], str],
        room_of_queue: Callable[[MessageQueue], str] | None = None,
        within: Strategy | None = None,
    ) -> None:
        """`room_of_member` gets a client id; a queue's room is by default the part before `@` in its broker's name."""
        self._room_of_member = room_of_member
        self._room_of_queue = room_of_queue or _room_in_broker_name
        self._within = within or Averagely()

    @property
    def name(self) -> str:
        """RocketMQ's name, with that of the strategy within a room."""
        return f"MACHINE_ROOM_NEARBY-{self._within.name}"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """As `Strategy.allocate`. Raises ValueError for a queue or a member without a room."""
        if member not in members:
            return []
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_in.setdefault(_room(self._room_of_queue(queue), queue), []).append(queue)
        members_in: dict[str, list[str]] = {}
        for each in members:
            members_in.setdefault(_room(self._room_of_member(each), each), []).append(each)
        room = self._room_of_member(member)
        mine = self._within.allocate(member, queues_in.pop(room, []), members_in[room])
        for other in sorted(queues_in.keys() - members_in.keys()):
            mine += self._within.allocate(member, queues_in[other], members)
        return mine


class ByConfig:
    """Always the same queues, whatever the other members (AllocateMessageQueueByConfig). The user must keep them disjoint."""

    name = "CONFIG"

    def __init__(self, queues: Collection[MessageQueue]) -> None:
        self._queues = list(queues)

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the configured queues of the topic."""
        if member not in members:
            return []
        topics = {queue.topic for queue in queues}
        return [queue for queue in self._queues if queue.topic in topics]


def _hash(key: str) -> int:
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:_HASH_BYTES])


def _java_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue_id}]"


def _room_in_broker_name(queue: MessageQueue) -> str:
    room, at, _ = queue.broker.partition("@")
    return room if at else ""


def _room(room: str, of: object) -> str:
    if not room:
        raise ValueError(f"{of} is in no machine room: check the functions that name the rooms")
    return room
