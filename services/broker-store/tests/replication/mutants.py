"""For each rule of replication one or more planted violations. Each replaces methods of the real classes while it is planted."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import retention_mutants
from mutant_registry import MUTANTS, Mutant, mutant, planted

from broker_store.replication.as_follower import Following
from broker_store.replication.as_leader import Leading
from broker_store.replication.epochs import EpochTable
from broker_store.replication.gate import Gate
from broker_store.replication.messages import DurableEnd
from broker_store.replication.register.record import Registered
from broker_store.replication.register_use import RegisterUse
from broker_store.replication.replica import Replica
from broker_store.replication.role import Role
from broker_store.replication.states import ReplicaState
from broker_store.replication.steps import CutLog, Kept

__all__ = ["FOUND_BY_A_LIFE", "MUTANTS", "planted", "retention_mutants"]

# Rule 1


@mutant(1, "acknowledges by its own fsync alone", (Gate, "_advance"))
def own_fsync_alone(gate: Gate) -> None:
    end = gate._ends.get(gate._leader, -1)
    if end >= max(gate._start, gate.confirm or 0):
        gate.confirm = end


@mutant(1, "does not count the proposed set", (Gate, "_advance"))
def proposed_set_not_counted(gate: Gate) -> None:
    lowest = min(gate._ends.get(replica, -1) for replica in gate.recorded)
    if lowest >= max(gate._start, gate.confirm or 0):
        gate.confirm = lowest


@mutant(1, "reports what is written, not what is durable", (Following, "report"))
def written_is_durable(following: Following) -> None:
    replica, copying = following._replica, following._copying
    if replica.may.acknowledges_leader and copying is not None and copying.stage.value == "copying":
        ends = (replica.end, replica.end)
        replica.send(
            copying.leader,
            DurableEnd(copying.session, copying.welcome.epoch, copying.version, *ends, copying.sent_at),
        )


# Rule 2


@mutant(2, "counts a set before the register has it", (Gate, "propose"))
def set_before_the_register(gate: Gate, members: frozenset[str]) -> None:
    gate.recorded = members
    gate._advance()


@mutant(2, "adds a learner that is behind", (Gate, "_may_be_added"))
def adds_a_learner_behind(gate: Gate, replica: str, now: int) -> bool:
    return gate.is_heard(replica, now)


def _next_set_of_any_size(gate: Gate, now: int) -> frozenset[str] | None:
    smaller = gate.recorded - gate._silent(now)
    larger = gate.recorded | {replica for replica in gate._ends if gate._may_be_added(replica, now)}
    wanted = smaller if smaller != gate.recorded else larger
    return wanted if wanted != gate.recorded else None


MUTANTS["below_min_in_sync"] = Mutant(
    2,
    "shrinks the set below min_in_sync, and takes sends with any",
    ((Gate, "next_set", _next_set_of_any_size), (Gate, "accepts_sends", property(lambda _gate: True))),
)


# Rule 3


_persist = Replica.persist


def _remembers_not_in(*states: ReplicaState) -> Callable[..., None]:
    """In these states versions are kept in memory alone: a crash forgets them, the life that runs knows them."""

    def persist(replica: Replica, kept: Kept, then: Callable[[], None] | None = None) -> None:
        if replica.state not in states:
            _DURABLE[replica] = kept
            _persist(replica, kept, then)
            return
        old = _DURABLE.setdefault(replica, replica.kept)
        on_disk = _DURABLE[replica] = replace(old, table=kept.table, fence=max(old.fence, 1))
        _persist(replica, on_disk, then)
        replica.kept = kept

    return persist


_DURABLE: WeakKeyDictionary[Replica, Kept] = WeakKeyDictionary()
"""What is on disk of each life."""
MUTANTS["promise_in_memory"] = Mutant(
    3,
    "campaigns and takes over without a trace of the version on disk",
    ((Replica, "persist", _remembers_not_in(ReplicaState.PROMISED)),),
)


@mutant(3, "promises less than before", (Role, "_promise"))
def promise_goes_down(role: Role) -> None:
    record, kept = role._candidacy(), role.replica.kept
    role.following.restart()
    role.replica.become(ReplicaState.PROMISED)
    role.replica.persist(replace(kept, fence=record.version), lambda: role.register.write(record))


@mutant(3, "takes its own lost write for another's", (RegisterUse, "is_own"))
def nonce_not_recognized(register: RegisterUse, record: Registered) -> bool:
    return False


# Rule 4


def _follows_always(role: Role, record: Registered | None) -> ReplicaState:
    is_known = record is not None and role.replica.kept.fence > 0
    return ReplicaState.FOLLOWER if is_known else ReplicaState.LEARNER


_candidacy = Role._candidacy


def _candidacy_of_anybody(role: Role) -> Registered:
    record, name = _candidacy(role), role.replica.settings.name
    return record if name in record.members else replace(record, members=(*record.members, name))


MUTANTS["outsider_campaigns"] = Mutant(
    4,
    "campaigns outside of the set",
    ((Role, "_state_by", _follows_always), (Role, "_candidacy", _candidacy_of_anybody)),
)


def _soon_silent(following: Following, patience_ms: int) -> bool:
    return following._replica.now - following._heard_at > min(patience_ms, 400)


def _grants_at_once(role: Role, now: int) -> bool:
    return role.leading is not None and role.leading.gate.has_lease(now)


MUTANTS["impatient"] = Mutant(
    4,
    "campaigns after a short silence, and grants without waiting for the old leader's grace",
    ((Following, "is_silent", _soon_silent), (Role, "may_grant", _grants_at_once)),
)


def _silent_since_ever(following: Following, replica: Replica) -> None:
    _begin(following, replica)
    following._heard_at -= 10_000


_begin = Following.__init__
MUTANTS["silence_before_the_start"] = Mutant(
    4,
    "counts silence from before its start, and grants without waiting for the old leader's grace",
    ((Following, "__init__", _silent_since_ever), (Role, "may_grant", _grants_at_once)),
)


# Rule 5


_open_gate = Gate.__init__


def _gate_open_at_its_start(gate: Gate, *given: Any) -> None:
    _open_gate(gate, *given)
    gate.confirm = gate._start


MUTANTS["confirm_kept_over_an_epoch"] = Mutant(
    5, "starts with its own end as confirmed", ((Gate, "__init__", _gate_open_at_its_start),)
)


@mutant(5, "leads before its epoch is durable", (Role, "_take_over"))
def epoch_not_durable(role: Role) -> None:
    record, replica = role._won, role.replica
    if record is None or replica.durable < replica.end:
        return
    role._won = None
    start = 0 if record.version == 1 else replica.end
    table = replica.kept.table.until(replica.end).with_epoch(record.epoch, start)
    replica.persist(replace(replica.kept, newest=record, table=table))
    role._lead(record)


@mutant(5, "does not record its epoch", (Role, "_take_over"))
def epoch_not_recorded(role: Role) -> None:
    record, replica = role._won, role.replica
    if record is None or replica.durable < replica.end:
        return
    role._won = None
    table = replica.kept.table if record.version > 1 else replica.kept.table.with_epoch(1, 0)
    replica.persist(replace(replica.kept, newest=record, table=table), lambda: role._lead(record))


# Rule 6


@mutant(6, "cuts at the smaller end, whatever the epochs are", (EpochTable, "common_end"))
def never_cuts(table: EpochTable, end: int, other: EpochTable, other_end: int) -> int:
    return min(end, other_end)


def _cut_at_once(following: Following, copying: Any, welcome: Any) -> None:
    replica = following._replica
    if copying.stage.value != "asked" or not following._accepts(welcome.version):
        return
    copying.welcome, copying.version, copying.sent_at = welcome, welcome.version, welcome.sent_at
    following._heard_at = replica.now
    if replica.kept.fence == 0:
        replica.persist(replace(replica.kept, fence=1))
    following._cut(copying, welcome.common)


MUTANTS["cut_before_remembering"] = Mutant(
    6, "cuts and acknowledges without remembering the version", ((Following, "_welcome", _cut_at_once),)
)


MUTANTS["version_not_remembered"] = Mutant(
    6,
    "follows a leader without a trace of its version on disk",
    ((Replica, "persist", _remembers_not_in(ReplicaState.LEARNER, ReplicaState.FOLLOWER)),),
)


def _accepts_anybody(following: Following, version: int) -> bool:
    return True


def _report_whatever_was_promised(following: Following) -> None:
    replica, copying = following._replica, following._copying
    if replica.may.acknowledges_leader and copying is not None and copying.stage.value == "copying":
        ends = (replica.durable, replica.end)
        replica.send(
            copying.leader,
            DurableEnd(copying.session, copying.welcome.epoch, copying.version, *ends, copying.sent_at),
        )


def _current_whatever_was_promised(following: Following, copying: Any, head: Any) -> bool:
    return copying.welcome is not None and head.epoch == copying.welcome.epoch


_hello = Leading._hello


def _hello_of_anybody(leading: Leading, peer: str, hello: Any) -> None:
    _hello(leading, peer, replace(hello, version=min(hello.version, leading._replica.version)))


MUTANTS["older_version_accepted"] = Mutant(
    6,
    "leader and follower do not compare versions",
    (
        (Following, "_accepts", _accepts_anybody),
        (Following, "report", _report_whatever_was_promised),
        (Following, "_is_current", _current_whatever_was_promised),
        (Leading, "_hello", _hello_of_anybody),
    ),
)


def _cut_log_and_table_at_once(following: Following, copying: Any, at: int) -> None:
    replica = following._replica
    copying.stage = type(copying.stage)("cutting")
    replica.persist(replace(replica.kept, table=copying.welcome.table))
    if at < replica.end:
        following.is_cutting = True
        replica.emit(CutLog(at))
    else:
        following.cut()


MUTANTS["table_before_the_cut"] = Mutant(
    6, "takes the leader's table before the log is cut", ((Following, "_cut", _cut_log_and_table_at_once),)
)


def _any_session(leading: Leading, peer: str, report: DurableEnd) -> None:
    leading.gate.heard(peer, report.sent_at)
    leading.gate.durable(peer, report.durable)
    if leading._sessions.get(peer) == report.session:
        _durable_end(leading, peer, report)
    leading._acknowledge()


_durable_end = Leading._durable_end


def _keeps_ends(gate: Gate, replica: str) -> None: ...


MUTANTS["reports_of_any_session_count"] = Mutant(
    6,
    "counts reports of other sessions and leaders",
    ((Leading, "_durable_end", _any_session), (Gate, "joined", _keeps_ends)),
)


# Rule 7


@mutant(7, "continues after it learned of another leader", (Role, "_adopt_as_leader"))
def leads_beside_another(role: Role, leading: Leading, record: Registered, is_own: bool) -> None:
    role.replica.persist(replace(role.replica.kept, newest=record))
    if is_own:
        leading.recorded(record)
    else:
        leading.gate.record(tuple(leading.gate.recorded))


# Rule 8


@mutant(8, "has its lease when one other member was heard", (Gate, "has_lease"))
def lease_without_all(gate: Gate, now: int) -> bool:
    others = gate.counted - {gate._leader}
    return not others or any(gate.is_heard(replica, now) for replica in others)


@mutant(8, "counts the lease from the arrival of an answer", (Leading, "_durable_end"))
def lease_from_arrival(leading: Leading, peer: str, report: DurableEnd) -> None:
    _durable_end(leading, peer, replace(report, sent_at=leading._replica.now))


@mutant(8, "has its lease for longer than others wait", (Gate, "has_lease"))
def lease_too_long(gate: Gate, now: int) -> bool:
    others = gate.counted - {gate._leader}
    return all(now - gate._heard.get(replica, now - 5000) < 5000 for replica in others)


_resign = Leading.resign


def _resign_and_grant(leading: Leading, wished: str) -> None:
    _resign(leading, wished)
    leading.has_resigned = False


MUTANTS["grants_after_resigning"] = Mutant(
    8, "grants after it has resigned", ((Leading, "resign", _resign_and_grant),)
)

# Rule 13


@mutant(13, "lets a full replica lead in place of another full one", (Leading, "is_fit"))
def full_is_named(leading: Leading, peer: str) -> bool:
    return True


def _grace(role: Role) -> int:
    return role.replica.settings.grace_ms


MUTANTS["full_campaigns_with_the_others"] = Mutant(
    13, "does not let others go first although its disk is full", ((Role, "_patience_ms", property(_grace)),)
)

FOUND_BY_A_LIFE: dict[str, int] = {
    "own_fsync_alone": 0,
    "proposed_set_not_counted": 0,
    "written_is_durable": 1,
    "set_before_the_register": 1,
    "adds_a_learner_behind": 1,
    "below_min_in_sync": 6,
    "promise_in_memory": 20,
    "nonce_not_recognized": 0,
    "outsider_campaigns": 0,
    "impatient": 7,
    "silence_before_the_start": 18,
    "confirm_kept_over_an_epoch": 1,
    "epoch_not_durable": 530,
    "epoch_not_recorded": 2,
    "never_cuts": 2,
    "version_not_remembered": 20,
    "reports_of_any_session_count": 240,
    "leads_beside_another": 0,
    "lease_without_all": 1,
    "lease_from_arrival": 126,
    "lease_too_long": 5,
    "follower_deletes_by_itself": 0,
    "begins_at_its_confirm_offset": 0,
    "never_begins_again": 2,
    "begins_again_without_a_table": 2,
    "begins_again_at_zero": 2,
    "log_not_void": 2,
    "grants_after_resigning": 1,
}
"""The first seed from 0 whose life finds the mutant: `simulate.py --mutant NAME --lives 3000`."""
