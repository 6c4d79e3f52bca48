"""Send requests: 10 and 310 carry one message, 320 a batch.

Applies RocketMQ 5.3.3's checks in their order, then submits to the group commit. Never writes the log.
"""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.commit.appends import Appends
from broker_store.commit.message import ALONE_OF, Message, Mode
from broker_store.commit.special_sends import DELAYS, SPECIAL, SpecialSends, refuse_in_batch
from broker_store.commit.stamp import Stamp
from broker_store.commit.targets import Target, Targets
from broker_store.ports import Commands, Peer
from broker_store.retrying.retries import Retries
from broker_store.sending.keyed import KeyedSends
from broker_store.sending.keyed_run import PlainKeyed
from broker_store.sending.plain_sends import BORN_HOST, PlainSends, born_host
from broker_store.sending.send_batch import Items, SendBatch, read_items
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import FLAG_ONEWAY, Command
from gantry_wire.headers.messages import SendHeader, SendHeaderV2
from gantry_wire.limits import PER_ITEM_BATCH_BYTES_MAX, PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX
from gantry_wire.messages.properties import (
    GANTRY_KEY,
    KEYS,
    PRIORITY,
    SHARDING_KEY,
    TAGS,
    WAIT,
    parse_properties,
    tags_code,
)
from gantry_wire.names import RETRY_PREFIX

_NO_PRIORITY = SPECIAL | {SHARDING_KEY}
"""Properties of messages that have no priority, whatever their property says: transactions, delayed and ordered ones."""
_PRIORITY_DIGITS_MAX = 10


@dataclass(eq=False)
class SendHandler:
    """Handles sends. `single` runs once per message that `PlainSends` did not take: no closures, no tasks, no logging."""

    targets: Targets
    appends: Appends
    stamp: Stamp
    retries: Retries
    keyed: KeyedSends
    special: SpecialSends
    plain: PlainSends
    accept_after_ms: int
    """Wall clock in ms before which sends are refused; 0 when none is."""
    wall_ms: Callable[[], int]

    def __post_init__(self) -> None:
        self._known = self.targets.known
        self._finish = self.stamp.finish
        self._take_half, self._take_known_half = self.special.take_half, self.special.take_known_half
        self._plain_keyed = PlainKeyed(self.plain, self.keyed, self.appends)

    def commands(self) -> Commands:
        """Return the table entries of this family."""
        return {
            RequestCode.SEND_MESSAGE: ("send", self.single),
            RequestCode.SEND_MESSAGE_V2: ("send", self.single),
            RequestCode.SEND_BATCH_MESSAGE: ("send", self.single),
        }

    def single(self, peer: Peer, command: Command) -> None:
        """Store one message.

        Answers when it is as durable as its topic promises. The header says whether it is a batch.
        """
        header = self._header(command)
        if header.batch and command.code != RequestCode.SEND_MESSAGE:
            self._batch(peer, command, header)
            return
        if self.accept_after_ms:
            self._refuse_before_start()
        target = self._known.get(header.topic) or self.targets.admit(header, peer.remote)
        text = header.properties or ""
        if (
            len(command.body) <= self.plain.body_bytes_max
            and self._take_known_half(peer, command, header, target, text)
            if header.sys_flag
            else self.plain.take_read(peer, command, header, target, text)
            or (GANTRY_KEY in text and self._plain_keyed.take_read(peer, command, header, target, text))
        ):
            return
        properties = parse_properties(text)
        if target.topic.startswith(RETRY_PREFIX):
            target, queue_id, text, properties = self.retries.route(
                header, command.version, target, text, properties
            )
        else:
            queue_id = _queue_of(properties, target.write_queues, header.queue_id)
        queue = target.queues[queue_id] if 0 <= queue_id < target.queue_limit else None
        if queue is None:
            queue = self.targets.queue(target, queue_id, peer.remote)
        body = command.body
        raw, unique_key = self._finish(text, properties)
        if len(body) > self.plain.body_bytes_max or len(raw) > PROPERTIES_BYTES_MAX:
            raise _too_large(len(body), self.plain.body_bytes_max, len(raw))
        mode = target.mode
        if mode == Mode.SYNC and properties.get(WAIT) == "false":
            mode = Mode.EARLY
        tag = properties.get(TAGS)
        message = Message(
            queue,
            body,
            raw,
            tags_code(tag) if tag else 0,
            unique_key,
            properties.get(KEYS),
            mode,
            None if command.flag & FLAG_ONEWAY else peer,
            command.opaque,
            header.flag,
            header.sys_flag,
            header.born_timestamp,
            peer.attributes.get(BORN_HOST) or born_host(peer),
            header.reconsume_times or 0,
        )
        if header.sys_flag or not SPECIAL.isdisjoint(properties):
            if self._take_half(peer, command, header, target, message, properties):
                return
            message = self.special.prepare(message, properties)
        self._submit(message, len(body), target, properties)

    def _submit(self, message: Message, body_size: int, target: Target, properties: dict[str, str]) -> None:
        if GANTRY_KEY in properties:
            self.keyed.submit(message, target.topic, properties)
        else:
            if self.appends.alone is not None:
                self._answer_alone(message, properties)
            self.appends.submit(message, body_size)

    @staticmethod
    def _answer_alone(message: Message, properties: dict[str, str]) -> None:
        """Let the leader answer a plain message alone. What waits in a system queue is none, nor is one whose delay was over when it came."""
        if type(message) is Message and DELAYS.isdisjoint(properties):
            message.mode = ALONE_OF[message.mode]

    def _batch(self, peer: Peer, command: Command, header: SendHeader) -> None:
        """Store the messages of a batch together."""
        if self.accept_after_ms:
            self._refuse_before_start()
        target = self._known.get(header.topic) or self.targets.admit(header, peer.remote)
        queue = self.targets.queue(target, header.queue_id, peer.remote)
        _check_batch_topic(target)
        shared = parse_properties(header.properties or "")
        refuse_in_batch(shared, header.sys_flag)
        batch_bytes_max = PER_ITEM_BATCH_BYTES_MAX if header.per_item else self.plain.body_bytes_max
        if len(command.body) > batch_bytes_max:
            raise _too_large(len(command.body), batch_bytes_max, 0)
        items = read_items(command.body, header.sys_flag, self.stamp)
        if len(command.body) > self.plain.body_bytes_max:
            self._check_each(items)
        mode = target.mode
        if mode == Mode.SYNC and shared.get(WAIT) == "false":
            mode = Mode.EARLY
        batch = SendBatch(
            queue,
            items,
            mode,
            None if command.flag & FLAG_ONEWAY else peer,
            command.opaque,
            header.sys_flag,
            header.born_timestamp,
            peer.attributes.get(BORN_HOST) or born_host(peer),
            header.reconsume_times or 0,
            bool(header.per_item),
        )
        if GANTRY_KEY.encode() in command.body:
            self.keyed.submit_batch(batch)
        else:
            if self.appends.alone is not None:
                batch.mode = ALONE_OF[mode]
            self.appends.submit(batch, len(command.body))

    def _check_each(self, items: Items) -> None:
        largest = max(map(len, items.bodies))
        if largest > self.plain.body_bytes_max:
            raise _too_large(largest, self.plain.body_bytes_max, 0)

    def _header(self, command: Command) -> SendHeader:
        fields = command.fields
        if isinstance(fields, SendHeader):
            return fields
        return command.read(SendHeader if command.code == RequestCode.SEND_MESSAGE else SendHeaderV2)

    def _refuse_before_start(self) -> None:
        if self.wall_ms() < self.accept_after_ms:
            raise RefusedRequest(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {self.accept_after_ms} (ms since 1970)",
            )
        self.accept_after_ms = 0


def _check_batch_topic(target: Target) -> None:
    if len(target.topic) > TOPIC_BYTES_MAX:
        raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, f"message topic length over {TOPIC_BYTES_MAX}")
    if target.topic.startswith(RETRY_PREFIX):
        group = target.topic.removeprefix(RETRY_PREFIX)
        raise RefusedRequest(
            ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {group}"
        )


def _queue_of(properties: dict[str, str], write_queues: int, queue_id: int) -> int:
    """Return the queue of a message: the one that it names, or that of its priority.

    A priority has a queue of its own, and all above the last queue share that, as in RocketMQ 5.4. A message with a priority that is
    no number goes where it asks.
    """
    priority = properties.get(PRIORITY)
    if priority is None or not write_queues or not _NO_PRIORITY.isdisjoint(properties):
        return queue_id
    if not (priority.isascii() and priority.isdigit() and len(priority) <= _PRIORITY_DIGITS_MAX):
        return queue_id
    return min(int(priority), write_queues - 1)


def _too_large(body_size: int, body_bytes_max: int, properties_size: int) -> RefusedRequest:
    if body_size > body_bytes_max:
        remark = f"the message body has {body_size} bytes, the limit is {body_bytes_max}"
    else:
        remark = f"the message properties have {properties_size} bytes, the limit is {PROPERTIES_BYTES_MAX}"
    return RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, remark)
