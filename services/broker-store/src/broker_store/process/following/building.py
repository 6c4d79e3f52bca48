"""Builds what a replica serves while it follows. Loaded only by stores with replicas."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker_store.opening.opening import Opening
from broker_store.process.following.reading import FollowerReading
from broker_store.process.following.service import FollowerService, reading_table, while_following
from broker_store.process.foundation import Surroundings
from broker_store.process.group.follower_table import GroupTable, not_leader
from broker_store.process.measuring import RuntimeReader
from broker_store.process.membership import Membership
from broker_store.replication.states import ReplicaState
from broker_store.requests.command_table import CommandTable, Door
from gantry_chassis.metrics import Metrics
from gantry_wire.errors import RefusedRequest

if TYPE_CHECKING:
    from broker_store.process.following.users import FollowedUsers
    from gantry_guard.guard import Guard


def build_follower(
    around: Surroundings,
    opening: Opening,
    membership: Membership,
    guard: "Guard | None",
    values: Mapping[str, str],
    metrics: Metrics,
    group_alone: GroupTable,
    admit: Callable[[GroupTable | CommandTable], None],
) -> FollowerService:
    """Return it. `around` has metrics of its own; `metrics`: of the process. `values`: the start's settings under RocketMQ's keys."""
    own_id = membership.settings.follower_id
    roles = {"brokerId": str(own_id), "brokerRole": "SLAVE"}
    state = RuntimeReader(opening.store, lambda: opening.replayed_end, around.now_ms).read
    reading = FollowerReading(
        around, opening, {**values, **roles}, state, own_id, lambda: membership.is_copying
    )
    _count(metrics, reading)

    def refusal() -> RefusedRequest:
        return not_leader(membership.leader_address() if guard is None else "")

    def leads() -> bool:
        return membership.state is ReplicaState.LEADER

    tools = membership.report.tools(around.settings.cluster_name)
    reads = while_following({**reading.commands(), **tools}, leads, refusal)
    commands = {**reads, **membership.commands()}
    users, door = _access(guard, around, opening, membership)
    table = reading_table(around.classes, door, commands, refusal)
    return FollowerService(reading, users, group_alone, table, admit, has_gaps=membership.refilling.has_gaps)


def _count(metrics: Metrics, reading: FollowerReading) -> None:
    pulls = reading.pulls
    metrics.counted(
        "gantry_store_replica_pulls_found", "Pulls answered with messages while this replica followed.",
        lambda: pulls.metrics.get_found,
    )  # fmt: skip
    metrics.counted(
        "gantry_store_replica_pulls_empty", "Pulls answered without a message while this replica followed.",
        lambda: pulls.metrics.get_misses,
    )  # fmt: skip
    metrics.gauge(
        "gantry_store_replica_held_pulls", "Pulls that wait at this replica while it follows.", lambda: pulls.held_count
    )  # fmt: skip


def _access(
    guard: "Guard | None", around: Surroundings, opening: Opening, membership: Membership
) -> "tuple[FollowedUsers | None, Door | None]":
    """Return what knows the users, and the door of both ports. Without access control, load none of its code."""
    if guard is None:
        return None, None
    from broker_store.access.record_topics import RecordTopics
    from broker_store.process.following.users import FollowedUsers

    store = opening.store
    users = FollowedUsers(guard.table, store.states.access, lambda: membership.knows_all)
    # a follower relays no decisions of transactions
    door = guard.door(
        around.settings.cluster_name, RecordTopics(store.log, lambda _fields, _at: None).topic_of
    )
    return users, door
