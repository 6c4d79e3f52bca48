"""Acts of clients and operators in a random life of a store. Each act draws its own details."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from answered_config import AnsweredConfig
from comparison import Allowed
from leasing_side import Given, given, item
from sending_side import ScriptedPeer
from settling_side import LEVEL_DROP
from store_side import WholeSide

from broker_store.config_log.config_entry import Key
from broker_store.config_log.config_entry import Kind as ConfigKind
from broker_store.config_log.settings_table import setting_key
from broker_store.log.errors import PositionRemoved
from broker_store.log.files.simulated_files import Crashed
from gantry_access.entries.entry import Entry, Kind
from gantry_wire.bodies.clients import LockBatchRequestBody
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.headers.messages import EndTransactionHeader, UpdateConsumerOffsetHeader
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.leases import ItemKind, LeaseItemsHeader, pack_items
from gantry_wire.private_requests.settling import SettleItem, SettleOutput
from gantry_wire.records.message_record import Record

TOPICS = ("orders", "short", "pairs")
GROUPS = ("plain", "impatient", "ordered", "latest")
TAGS = ("red", "blue", "")
FILTERS = ({"red"}, {"blue"}, {"red", "blue"}, set[str]())
"""Tags that a receive asks for. An empty set means all."""
BODY_BYTES = (5, 200, 900, 9000)
QUEUES = 2


class Acts:
    """Acts on the current store."""

    def __init__(self, dice: random.Random, allowed: Allowed, answered: AnsweredConfig) -> None:
        self.dice = dice
        self.side: WholeSide = None  # pyright: ignore[reportAttributeAccessIssue] - `begin` gives it
        self.allowed = allowed
        self.answered = answered
        self.number = 0
        self.peer = ScriptedPeer()
        self.leased: list[tuple[str, str, Given]] = []
        self.deletions: dict[tuple[str, int], ScriptedPeer] = {}
        """Topics deleted in this run, with their requests and peers."""
        self.changes: set[asyncio.Future[object]] = set()
        """Changes of access control under way."""

    def begin(self, side: WholeSide) -> None:
        """Continue with another store."""
        self.side, self.peer = side, ScriptedPeer()
        for group, changes in (
            ("impatient", {"retry_max_times": 1}),
            ("ordered", {"attributes": {"gantry.receive.order": "shardingKey"}}),
            ("latest", {"attributes": {"gantry.receive.start": "latest"}}),
        ):
            if side.consuming.groups.find(group) is None:
                side.set_group(group, **changes)

    def all(self) -> dict[Callable[[], None], int]:
        """Return every act with its weight."""
        return {
            self.send: 14, self.send_batch: 3, self.send_keyed: 6, self.send_delayed: 4, self.send_half: 4,
            self.end_half: 5, self.check_half: 2, self.settle: 5, self.receive: 8, self.acknowledge: 9,
            self.extend: 1, self.commit: 3, self.make_topic: 2, self.delete_topic: 2, self.delete_group: 1,
            self.lock: 2, self.note_failures: 2, self.change_access: 4, self.roll_access: 2,
            self.change_group: 3, self.change_setting: 2, self.forbid: 1, self.roll_config: 3,
        }  # fmt: skip

    # --- sends

    def _properties(self) -> dict[str, str]:
        self.number += 1
        dice, named = self.dice, {"UNIQ_KEY": f"U{self.number}"}
        if tag := dice.choice(TAGS):
            named["TAGS"] = tag
        if dice.random() < 0.3:
            named["KEYS"] = " ".join(dice.choices(("a", "b", "c", "U1", "x" * 40), k=dice.randint(1, 3)))
        if dice.random() < 0.3:
            named["__SHARDINGKEY"] = dice.choice(("k", "l"))
        return named

    def _send(self, properties: dict[str, str], **more: Any) -> None:
        dice = self.dice
        body = b"%d" % self.number + b"." * dice.choice(BODY_BYTES)
        topic, queue_id = dice.choice(TOPICS), dice.randrange(QUEUES)
        more = {"body": body, **more}
        self.side.send(self.peer, topic, queue_id=queue_id, properties=properties, **more)

    def send(self) -> None:
        for _ in range(self.dice.randint(1, 4)):
            self._send(self._properties())

    def send_batch(self) -> None:
        bodies = [
            (b"b" * self.dice.choice(BODY_BYTES), self._properties()) for _ in range(self.dice.randint(1, 4))
        ]
        self.side.send_batch(
            self.peer, bodies, self.dice.choice(TOPICS), queue_id=self.dice.randrange(QUEUES)
        )

    def send_keyed(self) -> None:
        key = f"key{self.dice.randrange(12)}"
        extra = {"__RMQ.TRANSIENT.x": "1"} if self.dice.random() < 0.2 else {}
        self._send({**self._properties(), **extra, "__GANTRY_KEY": key}, body=key.encode())

    def send_delayed(self) -> None:
        kind = self.dice.randrange(3)
        later = {
            0: {"DELAY": str(self.dice.randint(1, 4))},
            1: {"TIMER_DELAY_MS": str(self.dice.randint(1, 60_000))},
            2: {"TIMER_DELIVER_MS": str(int(self.side.wall_s * 1000) + self.dice.randint(1, 60_000))},
        }[kind]
        keyed = {"__GANTRY_KEY": f"key{self.dice.randrange(12)}"} if self.dice.random() < 0.3 else {}
        self._send(self._properties() | later | keyed)

    def send_half(self) -> None:
        keyed = {"__GANTRY_KEY": f"key{self.dice.randrange(12)}"} if self.dice.random() < 0.2 else {}
        delayed = {"DELAY": "1"} if self.dice.random() < 0.2 else {}
        self._send(self._properties() | keyed | delayed | {"TRAN_MSG": "true", "PGROUP": "pg"}, sys_flag=4)

    def _records(self, topic: str, queue_id: int) -> list[Record]:
        """Return the messages that wait in a queue. Empty while retention is between the segment and the queue."""
        try:
            return self.side.records(topic, queue_id)
        except PositionRemoved:
            return []

    # --- decisions

    def end_half(self) -> None:
        """End some halves as their producer does, sometimes twice."""
        halves = self._records(HALF_TOPIC, 0)
        for half in self.dice.sample(halves, min(len(halves), self.dice.randint(1, 3))):
            unique = half.property_map()["UNIQ_KEY"]
            header = EndTransactionHeader(
                producer_group="pg", tran_state_table_offset=half.queue_offset, commit_log_offset=half.position,
                commit_or_rollback=self.dice.choice((8, 8, 12)), from_transaction_check=False,
                msg_id=unique, transaction_id=unique,
            )  # fmt: skip
            self.side.ask(self.peer, RequestCode.END_TRANSACTION, header)

    def check_half(self) -> None:
        """Settle a half into its next copy, as a checker does."""
        copy = SettleOutput(HALF_TOPIC, 0, set={"TRANSACTION_CHECK_TIMES": "1"})
        self._settle(HALF_TOPIC, 0, [copy], "checked")

    def settle(self) -> None:
        """Deliver a waiting item, early if need be, or roll it forward; in any order."""
        topic, queue_id = self.dice.choice(
            ((TIMER_TOPIC, 0), *((SCHEDULE_TOPIC, level) for level in range(4)))
        )
        if self.dice.random() < 0.2:
            self._settle(topic, queue_id, [SettleOutput(topic, queue_id)], "moved")
        elif self.dice.random() < 0.2:
            self._settle(topic, queue_id, [], "cancelled")
        else:
            drop = (*LEVEL_DROP, "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS")
            target = SettleOutput(self.dice.choice(TOPICS), self.dice.randrange(QUEUES), drop=drop)
            self._settle(topic, queue_id, [target], "delivered")

    def _settle(self, topic: str, queue_id: int, outputs: list[SettleOutput], outcome: str) -> None:
        side = self.side
        waiting = self._records(topic, queue_id)
        chosen = self.dice.sample(waiting, min(len(waiting), self.dice.randint(1, 3)))
        items = [
            SettleItem(record.queue_offset, record.position, outputs, outcome, force=True)
            for record in chosen
        ]
        if items:
            side.settling.settle(topic, queue_id, "", None, items, _ignore)

    # --- leases and offsets

    def receive(self) -> None:
        dice = self.dice
        group, topic = dice.choice(GROUPS), dice.choice(TOPICS)
        fields: dict[str, Any] = {
            "group": group, "topic": topic, "max_messages": dice.choice((1, 3, 32)),
            "invisible_ms": dice.choice((1000, 30_000)),
        }  # fmt: skip
        if dice.random() < 0.4:
            tags = dice.choice(FILTERS)
            fields |= {"expression_type": "TAG", "expression": " || ".join(sorted(tags)) or "*"}
            fields["change_filter"] = dice.random() < 0.5
            self.allowed.tags_wanted.setdefault((group, topic), []).append(tags)
        answer = self.side.lease_raw(**fields)
        if answer is not None and answer.code == 0:
            self.leased += [(group, topic, one) for one in given(answer, topic)]

    def acknowledge(self) -> None:
        """Acknowledge, give back at once, soon or late, or release some leased messages."""
        if not self.leased:
            return
        dice = self.dice
        group, topic, _ = dice.choice(self.leased)
        mine = [one for one in self.leased if one[:2] == (group, topic)]
        chosen = dice.sample(mine, dice.randint(1, len(mine)))
        self.leased = [one for one in self.leased if one not in chosen]
        kind = dice.choices((ItemKind.ACK, ItemKind.NACK, ItemKind.RELEASE), (6, 3, 1))[0]
        if kind is ItemKind.RELEASE:
            records = [one.record for _, _, one in chosen]
            self.allowed.released |= {
                (group, it.topic.decode(), it.queue_id, it.queue_offset) for it in records
            }
        delay_ms = dice.choice((0, 2000, 60_000)) if kind is ItemKind.NACK else 0
        body = pack_items([item(one, kind, delay_ms) for _, _, one in chosen])
        self.side.ask(self.side.client, GantryCode.ACK, LeaseItemsHeader(group=group, topic=topic), body)

    def extend(self) -> None:
        if self.leased:
            group, topic, one = self.dice.choice(self.leased)
            header = LeaseItemsHeader(group=group, topic=topic, invisible_ms=60_000)
            self.side.ask(
                self.side.client, GantryCode.EXTEND_LEASE, header, pack_items([item(one, ItemKind.EXTEND)])
            )

    def commit(self) -> None:
        """Commit an offset, forward or back. One-way commits are saved later."""
        dice = self.dice
        topic, queue_id = dice.choice(TOPICS), dice.randrange(QUEUES)
        queue = self.side.queues.find(topic, queue_id)
        offset = dice.randint(0, 0 if queue is None else queue.max_offset)
        key = (dice.choice(GROUPS), topic, queue_id)
        self.allowed.committed[key] = max(offset, self.allowed.committed.get(key, 0))
        self.allowed.committed_back[key] = min(offset, self.allowed.committed_back.get(key, offset))
        header = UpdateConsumerOffsetHeader(
            consumer_group=key[0], topic=topic, queue_id=queue_id, commit_offset=offset
        )
        self.side.ask(self.peer, RequestCode.UPDATE_CONSUMER_OFFSET, header, oneway=dice.random() < 0.5)

    def note_failures(self) -> None:
        for _ in range(20):
            self.side.leasing.tick()

    # --- administration

    def make_topic(self) -> None:
        flush = self.dice.choice(("", "+gantry.flush=async", "+gantry.flush=sync"))
        fields = {
            "topic": self.dice.choice(TOPICS), "defaultTopic": "TBW102", "readQueueNums": str(QUEUES),
            "writeQueueNums": str(QUEUES), "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0",
            "order": "false", "attributes": flush,
        }  # fmt: skip
        self.side.ask(self.peer, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)

    def delete_topic(self) -> None:
        topic = self.dice.choice(TOPICS)
        opaque = self.side.ask(self.peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        self.deletions[topic, opaque] = self.peer

    def note_deletions(self) -> None:
        """Record the end of the process: an unanswered deletion may have happened, an answered one has."""
        answered = {
            (topic, opaque)
            for (topic, opaque), peer in self.deletions.items()
            if any(answer.opaque == opaque for answer in peer.answers)
        }
        self.allowed.half_deleted -= {topic for topic, _ in answered}
        # The topic may be deleted a second time while the first deletion runs.
        self.allowed.half_deleted |= {topic for topic, _ in self.deletions.keys() - answered}
        self.deletions.clear()

    def delete_group(self) -> None:
        fields = {"groupName": self.dice.choice(GROUPS), "cleanOffset": self.dice.choice(("true", "false"))}
        if fields["cleanOffset"] == "false":
            self.allowed.deleted_with_offsets.add(fields["groupName"])
        self.side.ask(self.peer, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)

    def change_access(self) -> None:
        """Store entries of access control: news, repeats, deletions, and some that an earlier one makes old."""
        dice = self.dice
        entries: list[Entry] = []
        for _ in range(dice.randint(1, 3)):
            self.number += 1
            record = None if dice.random() < 0.2 else b'{"v":1,"n":%d}' % dice.randrange(3)
            stamp_ms = max(0, self.number - dice.choice((0, 0, 0, 50)))
            entries.append(Entry(dice.choice(list(Kind)), dice.choice("abc"), stamp_ms, record))
        self._begin(self.side.access_log.append(entries))

    def roll_access(self) -> None:
        if self.side.care.roll_below:
            self._begin(self.side.access_log.roll(self.side.care.roll_below))

    def change_group(self) -> None:
        """Make, change or delete a group that nothing else names."""
        name, peer = self.dice.choice(("kept-a", "kept-b")), ScriptedPeer()
        if self.dice.random() < 0.3:
            self.side.ask(
                peer, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": name, "cleanOffset": "false"}
            )
            self.answered.note(Key(ConfigKind.GROUP, name), None, peer)
            return
        tries = self.dice.randrange(1, 100)
        body = b'{"groupName":"%s","retryMaxTimes":%d}' % (name.encode(), tries)
        self.side.ask(peer, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
        self.answered.note(Key(ConfigKind.GROUP, name), tries, peer)

    def change_setting(self) -> None:
        name = self.dice.choice(("shortPollingTimeMills", "maxTransferBytesOnMessageInMemory"))
        value, peer = str(self.dice.randrange(2000, 50_000)), ScriptedPeer()
        self.side.ask(peer, RequestCode.UPDATE_BROKER_CONFIG, None, f"{name}={value}\n".encode())
        self.answered.note(setting_key(name), value, peer)

    def forbid(self) -> None:
        fields = {
            "group": self.dice.choice(GROUPS),
            "topic": "orders",
            "readable": self.dice.choice(("true", "false")),
        }
        self.side.ask(ScriptedPeer(), RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)

    def roll_config(self) -> None:
        self._begin(self.side.configuration.roll(self.side.care.roll_below))

    def _begin(self, change: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(change)
        self.changes.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[object]) -> None:
        self.changes.discard(task)
        if not task.cancelled() and not isinstance(task.exception(), (RefusedRequest, Crashed, type(None))):
            raise AssertionError(f"a change failed: {task.exception()}")

    def lock(self) -> None:
        dice = self.dice
        queues = [MessageQueue(topic="orders", broker_name="broker-a", queue_id=dice.randrange(3))]
        body = LockBatchRequestBody(client_id=dice.choice("ab"), consumer_group="plain", mq_set=queues)
        code = dice.choice(
            (RequestCode.LOCK_BATCH_MQ, RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)
        )
        self.side.ask(self.peer, code, None, encode_body(body))


def _ignore(_answer: list[Any] | RefusedRequest) -> None:
    """Do nothing: the log holds the decision."""
