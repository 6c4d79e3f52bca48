"""Leases that a restart or a takeover forgot: their holders settle or extend them, and the table adopts them.

Where messages have keys, the table must know the key of an adopted message: otherwise the next message of its key in an ordered group is
delivered beside it, and a message of a retry topic that is given back reaches the receivers of every topic.
"""

from dataclasses import dataclass

from broker_store.commit.queues import QueueTable
from broker_store.leases.lease_table.handle_state import HandleState
from broker_store.leases.queue_scan import Scanner, key_property
from broker_store.leases.receive_handler import Receiver
from broker_store.leases.subscriptions import QueueLeases, Subscription
from gantry_wire.names import RETRY_PREFIX


@dataclass(frozen=True, slots=True)
class Adoption:
    """Adopts leases of the run of the store, or of the leader of its group, before this one."""

    queues: QueueTable
    scanner: Scanner
    receiver: Receiver

    def state(
        self,
        subscription: Subscription,
        leases: QueueLeases,
        handle: tuple[int, int],
        now_ms: int,
        until_ms: int,
        *,
        may_wait: bool,
    ) -> HandleState:
        """Return the state of the handle (offset, lease). A forgotten lease is adopted until then, and HELD.

        FORGOTTEN: it cannot be adopted. Raises Cold where the key of a message is not in memory; nothing has changed then.
        """
        offset, lease = handle
        table = leases.table
        state = table.handle_state(offset, lease, now_ms, self.receiver.is_ours)
        if state is not HandleState.FORGOTTEN or not self._is_the_same(subscription, leases, offset, lease):
            return state
        key = self._key(subscription, leases, offset, may_wait=may_wait)
        if not table.adopt(offset, lease, until_ms, key):
            return state
        self.receiver.watch(leases, subscription)
        return HandleState.HELD

    def _is_the_same(self, subscription: Subscription, leases: QueueLeases, offset: int, lease: int) -> bool:
        """Say whether the message at an offset is the one that was leased.

        A crash may lose messages that were leased, and others then get their offsets: those at or above the end
        that this start found. What earlier starts found is not known.
        """
        queue = self.queues.find(subscription.topic, leases.queue_id)
        is_there = queue is not None and queue.min_offset <= offset < queue.first_offset
        return is_there and self.receiver.is_of_last_run(lease)

    def _key(self, subscription: Subscription, leases: QueueLeases, offset: int, *, may_wait: bool) -> str:
        """Return the key of a message as the table has it: "" where messages have none, and for a damaged record."""
        is_retry = subscription.topic.startswith(RETRY_PREFIX)
        name = key_property(in_order=leases.table.in_order, is_retry=is_retry)
        queue = self.queues.find(subscription.topic, leases.queue_id)
        if not name or queue is None:
            return ""
        return self.scanner.key_at(queue, offset, name, may_wait=may_wait)
