"""A move of the lead is refused where the next leader could not lead now; the refusal says why."""

import pytest

from broker_store.process.group.lead_moves import check_move
from broker_store.process.group.settings import CannotMove
from broker_store.replication.as_leader import Leading
from broker_store.replication.epochs import Epoch, EpochTable
from broker_store.replication.messages import DurableEnd, Hello, Session
from broker_store.replication.register.record import Registered
from broker_store.replication.register_use import RegisterUse
from broker_store.replication.replica import Replica, RoleSettings
from broker_store.replication.steps import Kept

TABLE = EpochTable((Epoch(1, 0),))


def leading(heard: str, unfit: str = "", in_sync: str = "abc") -> Leading:
    """Return a leader `a` that has sessions with the others and heard some of them lately."""
    record = Registered(5, "g", 1, "a", tuple(in_sync), 2, "a-1", "a-0")
    replica = Replica(RoleSettings("a", "g", min_in_sync=1), Kept(5, record, TABLE), 0, 100, 0, "a.1", 1000)
    made = Leading(replica, RegisterUse(replica), record)
    for name in in_sync[1:]:
        session = Session(name, 1)
        made.receive(name, Hello(session, "g", "a-0", TABLE, 100, 5))
        made.receive(name, DurableEnd(session, 1, 5, 100, 100, 1000, name not in unfit))
    replica.begin_step(3000)
    for name in heard:
        made.receive(name, DurableEnd(Session(name, 1), 1, 5, 100, 100, 3000, name not in unfit))
    return made


@pytest.mark.parametrize(
    ("leader", "to", "why"),
    [
        (leading("", in_sync="a"), "", "no other replica is in sync"),
        (leading("", in_sync="a"), "b", "no other replica is in sync"),
        (leading("b", in_sync="ab"), "c", "c is not in sync; these are: b"),
        (leading(""), "", "no other replica was heard within the lease: .* b, c"),
        (leading(""), "b", "b was not heard within the lease, and no other one was: start one"),
        (leading("c"), "b", r"b was not heard within the lease: start it, or name another one \(c\)"),
        (leading("bc", unfit="c"), "c", "c is not fit to lead"),
        (leading("b", unfit="b"), "", r"no replica that was heard is fit to lead \(b\)"),
    ],
)
def test_a_leader_does_not_hand_over_to_a_replica_that_cannot_lead_now(
    leader: Leading, to: str, why: str
) -> None:
    with pytest.raises(CannotMove, match=why):
        check_move(leader, "a", to, 3000)


@pytest.mark.parametrize(
    ("heard", "unfit", "to"), [("b", "", ""), ("bc", "c", ""), ("c", "", "c"), ("bc", "b", "c")]
)
def test_a_leader_hands_over_where_a_fit_replica_was_heard(heard: str, unfit: str, to: str) -> None:
    check_move(leading(heard, unfit), "a", to, 3000)
