"""The Store port over gantry_link: typed calls, and link errors as the port's errors."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from gantry_link.clients.settling import SettleClient
from gantry_link.clients.store import StoreClient
from gantry_link.clients.transactions import TransactionStoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.errors import WireError
from gantry_wire.headers.messages import PullHeader
from gantry_wire.limits import PULL_MESSAGES_MAX
from gantry_wire.names import GATEWAY_GROUP
from gantry_wire.private_requests.settling import FENCED, SettleItem, SettleResult
from gantry_wire.private_requests.transactions import AskProducer
from gantry_wire.records.message_record import Record, scan_records
from txn_checker.ports import ClaimLost, Settled, StoreFailed

CHECKER_GROUP = GATEWAY_GROUP
"""The group of Gantry's own pulls. It stores no offsets and appears in no lists."""
PULL_HAS_FILTER = 4
SETTLE_SECONDS = 15.0


class LinkStore:
    """One store."""

    def __init__(self, pool: ConnectionPool, broker: str, address: str) -> None:
        self.broker, self.address = broker, address
        self.calls = StoreClient(pool, address)
        self._settling = SettleClient(pool, address, SETTLE_SECONDS)
        self._transactions = TransactionStoreClient(pool, address)

    async def settled(self, topic: str) -> Settled:
        """9004, all pages."""
        with _translated():
            state = await self._settling.state(topic, 0)
        return Settled(state.cursor, state.max_offset, state.store_time_ms, state.settled)

    async def read(self, topic: str, offset: int, count: int) -> tuple[list[Record], int]:
        """11, never held."""
        header = PullHeader(
            consumer_group=CHECKER_GROUP,
            topic=topic,
            queue_id=0,
            queue_offset=offset,
            max_msg_nums=min(count, PULL_MESSAGES_MAX),
            sys_flag=PULL_HAS_FILTER,
            subscription="*",
            wide=True,
            browse=True,
        )
        with _translated():
            pulled = await self.calls.pull(header)
            return list(scan_records(pulled.records)), pulled.next_offset

    async def record_at(self, position: int) -> bytes:
        """33."""
        with _translated():
            return await self.calls.view_message(position)

    async def settle(self, topic: str, epoch: int, items: Sequence[SettleItem]) -> list[SettleResult]:
        """9003."""
        with _translated():
            return (await self._settling.settle(topic, 0, epoch, items)).results

    async def ask_producer(self, ask: AskProducer) -> bool:
        """9025."""
        with _translated():
            return await self._transactions.ask_producer(ask)


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except BrokerRefused as error:
        if error.fields.get("gantryCode") == FENCED:
            raise ClaimLost(error.remark) from error
        raise StoreFailed(str(error)) from error
    except (LinkError, WireError) as error:
        raise StoreFailed(str(error)) from error
