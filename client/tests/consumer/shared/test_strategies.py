"""Members in Java and here must compute the same shares: the known values are from RocketMQ 5.3.3's own classes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.consumer.shared.strategies import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    Strategy,
)
from gantrymq.message import MessageQueue

QUEUES = [MessageQueue("TopicTest", broker, n) for broker in ("broker-a", "broker-b") for n in range(5)]
MEMBERS = ["10.0.0.1@101#1", "10.0.0.1@102#2", "10.0.0.2@103#3"]
ROOM_QUEUES = sorted(
    MessageQueue("TopicTest", broker, n)
    for broker in ("room1@a", "room1@b", "room2@c", "room3@d", "plain")
    for n in range(3)
)
ROOM_MEMBERS = ["room1-x@1", "room1-y@2", "room2-z@3"]


def room_of_member(member: str) -> str:
    return member.split("-", maxsplit=1)[0]


def room_of_queue(queue: MessageQueue) -> str:
    return queue.broker.split("@")[0]


NEARBY = MachineRoomNearby(room_of_member, room_of_queue)


def shares(strategy: Strategy, queues: list[MessageQueue], members: list[str]) -> list[str]:
    return [
        " ".join(f"{queue.broker}:{queue.queue_id}" for queue in strategy.allocate(member, queues, members))
        for member in members
    ]


@pytest.mark.parametrize(
    ("strategy", "queues", "members", "expected"),
    [
        (
            Averagely(),
            QUEUES,
            MEMBERS,
            [
                "broker-a:0 broker-a:1 broker-a:2 broker-a:3",
                "broker-a:4 broker-b:0 broker-b:1",
                "broker-b:2 broker-b:3 broker-b:4",
            ],
        ),
        (
            AveragelyByCircle(),
            QUEUES,
            MEMBERS,
            [
                "broker-a:0 broker-a:3 broker-b:1 broker-b:4",
                "broker-a:1 broker-a:4 broker-b:2",
                "broker-a:2 broker-b:0 broker-b:3",
            ],
        ),
        (
            ConsistentHash(),
            QUEUES,
            MEMBERS,
            [
                "broker-b:0 broker-b:3 broker-b:4",
                "broker-a:1 broker-a:3 broker-a:4 broker-b:2",
                "broker-a:0 broker-a:2 broker-b:1",
            ],
        ),
        (
            MachineRoom({"room1", "room3"}),
            ROOM_QUEUES,
            MEMBERS,
            [
                "room1@a:0 room1@a:1 room1@a:2",
                "room1@b:0 room1@b:1 room1@b:2",
                "room3@d:0 room3@d:1 room3@d:2",
            ],
        ),
        (
            NEARBY,
            ROOM_QUEUES,
            ROOM_MEMBERS,
            [
                "room1@a:0 room1@a:1 room1@a:2 plain:0 room3@d:0",
                "room1@b:0 room1@b:1 room1@b:2 plain:1 room3@d:1",
                "room2@c:0 room2@c:1 room2@c:2 plain:2 room3@d:2",
            ],
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_shares_are_those_of_the_java_client(
    strategy: Strategy, queues: list[MessageQueue], members: list[str], expected: list[str]
) -> None:
    assert shares(strategy, queues, members) == expected


@given(
    st.integers(0, 40),
    st.sets(st.text("abc0123@#", min_size=1, max_size=6), min_size=1, max_size=9),
    st.sampled_from([Averagely(), AveragelyByCircle(), ConsistentHash(), ConsistentHash(1)]),
)
def test_every_queue_has_exactly_one_owner(count: int, members: set[str], strategy: Strategy) -> None:
    queues = [MessageQueue("T", f"b{n % 3}", n // 3) for n in range(count)]
    queues.sort()
    everyone = sorted(members)
    owned = [queue for member in everyone for queue in strategy.allocate(member, queues, everyone)]
    assert sorted(owned) == queues


@given(st.integers(1, 30), st.lists(st.sampled_from("xyz"), min_size=1, max_size=6))
def test_rooms_share_every_queue_once(count: int, rooms: list[str]) -> None:
    members = sorted(f"{room}-{n}" for n, room in enumerate(rooms))
    queues = sorted(MessageQueue("T", f"{'wxyz'[n % 4]}@b", n) for n in range(count))
    owned = [queue for member in members for queue in NEARBY.allocate(member, queues, members)]
    assert sorted(owned) == queues


def test_an_unknown_member_gets_no_queue() -> None:
    for strategy in (
        Averagely(),
        AveragelyByCircle(),
        ConsistentHash(),
        MachineRoom({"r"}),
        NEARBY,
        ByConfig(QUEUES),
    ):
        assert strategy.allocate("nobody", QUEUES, MEMBERS) == []


def test_configured_queues_are_those_of_the_topic() -> None:
    other = MessageQueue("Other", "broker-a", 0)
    strategy = ByConfig([QUEUES[3], other])
    assert strategy.allocate(MEMBERS[0], QUEUES, MEMBERS) == [QUEUES[3]]


def test_a_queue_without_a_room_is_reported() -> None:
    nearby = MachineRoomNearby(room_of_member)
    with pytest.raises(ValueError, match="no machine room"):
        nearby.allocate("r-1", QUEUES, ["r-1"])
