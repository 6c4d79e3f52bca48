import pytest

from gantry_wire.messages.properties import java_hash
from gantrymq import InvalidMessage, Message, MessageQueue, by_hash, by_machine_room, by_random

MESSAGE = Message("T", b"x")


def queues(count, broker="b"):
    return [MessageQueue("T", broker, n) for n in range(count)]


@pytest.mark.parametrize(
    ("argument", "count", "expected"),
    [
        ("hello", 7, 99162322 % 7),  # "hello".hashCode() in Java
        ("", 5, 0),
        ("polygenelubricants", 4, 0),  # Integer.MIN_VALUE
        ("polygenelubricants", 3, 2),  # Math.abs(MIN_VALUE % 3)
        (17, 4, (49 * 31 + 55) % 4),  # a number by its text
        (-3, 8, (45 * 31 + 51) % 8),
    ],
)
def test_a_hash_chooses_the_queue_that_java_chooses(argument, count, expected):
    assert by_hash(queues(count), MESSAGE, argument).queue_id == expected


def test_a_negative_hash_gives_the_absolute_remainder():
    text = next(f"key-{n}" for n in range(1000) if java_hash(f"key-{n}") < 0)
    assert by_hash(queues(5), MESSAGE, text).queue_id == abs(java_hash(text)) % 5


@pytest.mark.parametrize("argument", [None, 1.5, b"key"])
def test_an_argument_without_a_java_hash_is_refused(argument):
    with pytest.raises(InvalidMessage, match="by_hash needs text or a whole number"):
        by_hash(queues(2), MESSAGE, argument)


def test_random_uses_every_queue():
    assert {by_random(queues(3), MESSAGE, None).queue_id for _ in range(300)} == {0, 1, 2}


def test_a_machine_room_is_the_part_before_the_at_sign():
    near, far = queues(2, "room1@b1"), queues(2, "room2@b1")
    select = by_machine_room({"room1"})
    assert {select(near + far, MESSAGE, None).broker for _ in range(50)} == {"room1@b1"}
    with pytest.raises(InvalidMessage, match="no queue on a broker of room1"):
        select(far, MESSAGE, None)
