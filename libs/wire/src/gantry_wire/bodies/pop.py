"""Bodies of POP: several acknowledgements (200151), and the queues that a broker assigns (400)."""

from __future__ import annotations

from msgspec import field

from gantry_wire.bodies.clients import MessageModel
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import Body


class BatchAck(Body, kw_only=True):
    """Messages of one queue that were popped together."""

    consumer_group: str = field(name="c")
    topic: str = field(name="t")
    retry: str = field(default="0", name="r")
    """Which topic has the queue. "0": the topic itself, "1" and "2": the group's retry topic."""
    start_offset: int = field(name="so")
    queue_id: int = field(name="q")
    revive_queue_id: int = field(name="rq")
    pop_time: int = field(name="pt")
    invisible_time: int = field(default=0, name="it")
    bits: str = field(default="", name="b")
    """Base64 of a bit set. Bit i, of weight 1 << (i % 8) in byte i / 8, is the message at `start_offset` + i."""


class BatchAckBody(Body, kw_only=True, rename="camel"):
    """200151."""

    broker_name: str = ""
    acks: list[BatchAck] = field(default_factory=list[BatchAck])


class QueryAssignmentBody(Body, kw_only=True, rename="camel"):
    """400: the queues of a member of a group."""

    client_id: str = ""
    consumer_group: str
    topic: str
    strategy_name: str = "AVG"
    message_model: MessageModel = MessageModel.CLUSTERING


class Assignment(Body, kw_only=True, rename="camel"):
    """One queue and how its messages are fetched, PULL or POP."""

    message_queue: MessageQueue
    mode: str


class AssignmentsBody(Body, kw_only=True, rename="camel"):
    """Reply of 400."""

    message_queue_assignments: list[Assignment] = field(default_factory=list[Assignment])
