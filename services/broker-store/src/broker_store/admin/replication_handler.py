"""Requests 907 and 1007: the replicas and RocketMQ's slaves that copy this broker's log, and the epochs of that log."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from broker_store.ports import Commands, Peer
from gantry_wire.bodies.admin import EpochEntry, EpochEntryCache, HAConnectionInfo, HARuntimeInfo
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response


class Copy(NamedTuple):
    """What another replica has of this log; positions in bytes."""

    address: str
    durable_end: int
    """It has reported that it has everything below."""
    shipped_end: int
    """Everything below was sent to it."""
    bytes_per_second: int
    """How fast `durable_end` grew lately."""
    is_in_sync: bool


class Group(Protocol):
    """What a leader knows of its group."""

    def copies(self) -> Sequence[Copy]:
        """Return the replicas that have a session with this leader."""
        ...

    def epochs(self) -> Sequence[tuple[int, int, int]]:
        """Return epoch, start and end of each epoch of the log."""
        ...

    def follower_ids(self) -> Sequence[int]:
        """Return the broker ids of the followers that have all that is acknowledged, and answer."""
        ...


class ReplicationHandlers:
    """Handles queries about replication."""

    def __init__(
        self, log_end: Callable[[], int], group: Group | None, cluster_name: str, broker_name: str, broker_id: int = 0,
        slaves: Callable[[], Sequence[Copy]] | None = None,
    ) -> None:  # fmt: skip
        """`log_end`: in bytes. `group`: None for a store without replicas. `slaves`: None without an HA port."""
        self._broker_id, self._slaves = broker_id, slaves
        self._log_end, self._group = log_end, group
        self._cluster_name, self._broker_name = cluster_name, broker_name

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.GET_BROKER_HA_STATUS: ("adminBroker", self.status),
            RequestCode.GET_BROKER_EPOCH_CACHE: ("adminBroker", self.epochs),
        }

    def status(self, _peer: Peer, command: Command) -> bytes:
        """Handle 907: the log's end, each replica and each slave."""
        end = self._log_end()
        replicas: Sequence[Copy] = () if self._group is None else self._group.copies()
        copies = [*replicas, *(() if self._slaves is None else self._slaves())]
        connections = [
            HAConnectionInfo(
                addr=copy.address, diff=end - copy.durable_end, in_sync=copy.is_in_sync, slave_ack_offset=copy.durable_end,
                transfer_from_where=copy.shipped_end, transferred_byte_in_second=copy.bytes_per_second,
            )
            for copy in copies
        ]  # fmt: skip
        body = HARuntimeInfo(
            ha_connection_info=connections, in_sync_slave_nums=sum(copy.is_in_sync for copy in copies),
            master_commit_log_max_offset=end,
        )  # fmt: skip
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def epochs(self, _peer: Peer, command: Command) -> bytes:
        """Handle 1007: which epoch wrote which part of the log. Raises RefusedRequest for a store without replicas."""
        if self._group is None:
            raise RefusedRequest(
                ResponseCode.SYSTEM_ERROR, "this store has no replicas, and its log no epochs"
            )
        entries = [
            EpochEntry(epoch=epoch, start_offset=start, end_offset=end)
            for epoch, start, end in self._group.epochs()
        ]
        body = EpochEntryCache(
            broker_id=self._broker_id, broker_name=self._broker_name, cluster_name=self._cluster_name, epoch_list=entries,
            max_offset=self._log_end(),
        )  # fmt: skip
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))
