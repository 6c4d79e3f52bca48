"""A store directory with known content, and what must still hold after its files are damaged."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import (
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    UpdateConsumerOffsetHeader,
)
from gantry_wire.limits import INT64_MAX
from gantry_wire.records.message_record import scan_records

from ..crash.store_process import StoreProcess  # noqa: TID252
from .client import Client

TOPIC = "faults"
QUEUE_COUNT = 2
PER_QUEUE = 330
BODY_BYTES = 2600
COMMITTED_OFFSET = 7
CONFIRM_AT = 32
"""Position of the confirm offset in the checkpoint file (docs/log-format.md)."""


def body_of(queue_id: int, offset: int) -> bytes:
    return f"q{queue_id}-{offset}:".encode().ljust(BODY_BYTES, b".")


@dataclass
class Filled:
    """The directory `store_dir`, filled by a previous run."""

    store_dir: Path
    messages: dict[int, dict[int, bytes]] = field(default_factory=dict[int, dict[int, bytes]])
    """Queue id → offset → body."""

    def copy(self, target: Path) -> Filled:
        shutil.copytree(self.store_dir, target)
        return Filled(target, {queue_id: dict(bodies) for queue_id, bodies in self.messages.items()})

    def segments(self) -> list[Path]:
        return sorted((self.store_dir / "commitlog").iterdir())

    def find(self, body: bytes) -> tuple[Path, int]:
        """The segment of a message, and the position of its body in it."""
        for segment in self.segments():
            at = segment.read_bytes().find(body)
            if at >= 0:
                return segment, at
        raise AssertionError(f"{body[:20]!r} is in no segment")

    def confirm_offset(self) -> int:
        return int.from_bytes(
            (self.store_dir / "checkpoint").read_bytes()[CONFIRM_AT : CONFIRM_AT + 8], "big"
        )


def fill(store: StoreProcess) -> Filled:
    """Send PER_QUEUE messages to each queue and commit an offset; leave the store running."""
    filled = Filled(store.store_dir, {queue_id: {} for queue_id in range(QUEUE_COUNT)})
    with Client(store.port) as client:
        for offset in range(PER_QUEUE):
            for queue_id in range(QUEUE_COUNT):
                body = body_of(queue_id, offset)
                assert client.send(body, TOPIC, queue_id) == offset
                filled.messages[queue_id][offset] = body
        client.pull(0, TOPIC)  # creates the group
        commit(client, COMMITTED_OFFSET)
    _await_group_kept(filled.store_dir)
    return filled


def _await_group_kept(store_dir: Path, group: bytes = b"faults-reader") -> None:
    """Wait until the group is in its file: a thread writes it, and an earlier kill loses a group that was created automatically."""
    file, until = store_dir / "config/subscriptionGroup.json", time.monotonic() + 30
    while not (file.exists() and group in file.read_bytes()):
        assert time.monotonic() < until, f"{file} does not hold the group"
        time.sleep(0.01)


def commit(client: Client, offset: int, group: str = "faults-reader") -> None:
    header = UpdateConsumerOffsetHeader(consumer_group=group, topic=TOPIC, queue_id=0, commit_offset=offset)
    answer = client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
    assert answer.code == 0, answer.remark


def committed(client: Client, group: str = "faults-reader") -> int:
    header = QueryConsumerOffsetHeader(consumer_group=group, topic=TOPIC, queue_id=0)
    answer = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
    assert answer.code == 0, (answer.code, answer.remark)
    return answer.read(OffsetReplyHeader).offset


def by_key(client: Client, body: bytes) -> list[bytes]:
    """Bodies that the index finds under the key that `Client.send` derives from the body."""
    header = QueryMessageHeader(
        topic=TOPIC, key=body[:40].decode("latin-1"), max_num=4, begin_timestamp=0, end_timestamp=INT64_MAX
    )
    answer = client.ask(RequestCode.QUERY_MESSAGE, header)
    return [record.body for record in scan_records(answer.body)] if answer.code == 0 else []


def check_whole(
    store: StoreProcess, filled: Filled, *, without: frozenset[tuple[int, int]] = frozenset()
) -> None:
    """Every message is at its position (except those in `without`), offsets continue, and the index finds all."""
    with Client(store.port) as client:
        for queue_id, bodies in filled.messages.items():
            expected = {offset: body for offset, body in bodies.items() if (queue_id, offset) not in without}
            assert client.read_all(TOPIC, queue_id) == expected
            assert client.send(b"next", TOPIC, queue_id) == len(bodies)
            assert client.read_all(TOPIC, queue_id) == expected | {len(bodies): b"next"}
        for offset in (0, PER_QUEUE // 2, PER_QUEUE - 1):
            body = filled.messages[1][offset]
            assert by_key(client, body) == ([] if (1, offset) in without else [body])
