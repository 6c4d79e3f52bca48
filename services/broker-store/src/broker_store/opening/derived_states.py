"""The derived states of a store, by name. Created at every opening, and again when a rebuild begins. See derived.py."""

from dataclasses import dataclass

from broker_store.access.access_entries import AccessEntries
from broker_store.commit.queues import QueueTable
from broker_store.config_log.config_entries import ConfigEntries
from broker_store.derived import Derived
from broker_store.groups.committed_offsets import CommittedOffsets
from broker_store.leases.subscriptions import Subscriptions
from broker_store.settling.decided.settled_table import SettledTable
from broker_store.transactions.half_copies import HalfCopies


@dataclass(slots=True)
class DerivedStates:
    """One field for each state."""

    settled: SettledTable
    leases: Subscriptions
    transactions: HalfCopies
    access: AccessEntries
    config: ConfigEntries
    committed: CommittedOffsets

    def all(self) -> list[Derived]:
        """Return every state, in replay order."""
        return [self.settled, self.leases, self.transactions, self.access, self.config, self.committed]

    def topic_deleted(self, topic: str) -> None:
        """Make every state forget a topic whose queues were removed."""
        for state in self.all():
            state.topic_deleted(topic)


def make_states(queues: QueueTable) -> DerivedStates:
    """Return all states, empty."""
    settled = SettledTable(queues)
    return DerivedStates(
        settled,
        Subscriptions(),
        HalfCopies(queues, settled),
        AccessEntries(),
        ConfigEntries(),
        CommittedOffsets(),
    )
