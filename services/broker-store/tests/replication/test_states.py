"""The table of states: every state has permissions and next states, and only what the table says is possible."""

from broker_store.replication.states import MAY, NEXT, ReplicaState


def test_every_state_is_in_both_tables():
    assert set(MAY) == set(NEXT) == set(ReplicaState)


def test_only_a_leader_accepts_sends_and_grants():
    assert [state for state in ReplicaState if MAY[state].accepts_sends] == [ReplicaState.LEADER]
    assert [state for state in ReplicaState if MAY[state].grants] == [ReplicaState.LEADER]


def test_a_replica_that_promised_acknowledges_nobody():
    acknowledging = {state for state in ReplicaState if MAY[state].acknowledges_leader}
    assert acknowledging == {ReplicaState.LEARNER, ReplicaState.FOLLOWER}


def test_a_learner_is_not_counted():
    assert not MAY[ReplicaState.LEARNER].counts


def test_only_a_promise_leads_to_leadership():
    assert [state for state in ReplicaState if ReplicaState.LEADER in NEXT[state]] == [ReplicaState.PROMISED]


def test_a_leader_only_ends_and_a_deposed_replica_stays_so():
    assert NEXT[ReplicaState.LEADER] == {ReplicaState.DEPOSED}
    assert NEXT[ReplicaState.DEPOSED] == frozenset()
