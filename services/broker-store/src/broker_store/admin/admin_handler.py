"""Requests 28 and 305: runtime information of the broker, and its system topics."""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.metrics.runtime_info import RuntimeState, runtime_info
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.ports import Commands, InThread, Peer, TopicTable
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.requests.request_classes import RequestClass
from gantry_wire.bodies.cluster import KVTable, TopicList
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response

_POOLS = {
    "send": "send",
    "pull": "pull",
    "litePull": "litePull",
    "query": "query",
    "ack": "ack",
    "reply": "reply",
}
"""RocketMQ's thread pools by name → our request class of the same work."""


@dataclass(frozen=True, slots=True)
class AdminHandlers:
    """Handles queries about the broker as a whole."""

    topics: TopicTable
    metrics: StoreMetrics
    classes: dict[str, RequestClass]
    state: Callable[[], RuntimeState]
    """Reads the disk: call it in a thread."""
    now_ms: Callable[[], int]
    deferred: DeferredReplies
    in_thread: InThread

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            28: ("adminBroker", self.runtime_info),
            305: ("adminBroker", self.system_topics),
        }

    def runtime_info(self, peer: Peer, command: Command) -> None:
        """Handle 28: runtime information."""
        self.deferred.answer(peer, command, self._runtime_info(command))

    def system_topics(self, _peer: Peer, command: Command) -> bytes:
        """Handle 305: topics that belong to the system."""
        body = TopicList(topic_list=sorted(self.topics.system_names()))
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    async def _runtime_info(self, command: Command) -> bytes:
        state = await self.in_thread(self.state)
        table = {**runtime_info(self.metrics, state), **self._queues()}
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(KVTable(table=table)))

    def _queues(self) -> dict[str, str]:
        """Return sizes and head waits of request classes, named as RocketMQ's thread pools."""
        now_ms = self.now_ms()
        table: dict[str, str] = {}
        for pool, name in _POOLS.items():
            requests = self.classes[name]
            table[f"{pool}ThreadPoolQueueSize"] = str(requests.in_flight)
            table[f"{pool}ThreadPoolQueueCapacity"] = str(requests.capacity)
            table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = str(requests.head_wait_ms(now_ms))
        transactions = self.classes["endTransaction"]
        table["EndTransactionQueueSize"] = str(transactions.in_flight)
        table["EndTransactionThreadPoolQueueCapacity"] = str(transactions.capacity)
        return table
