"""A replica that leads and does not serve yet refuses the reads that it answered as a follower."""

import pytest

from broker_store.process.following.service import while_following
from broker_store.process.group.follower_table import not_leader
from gantry_wire.codes import RequestCode
from gantry_wire.errors import RefusedRequest


def test_reads_are_refused_from_the_moment_on_that_the_replica_leads():
    states = [False, True]
    reads = {RequestCode.PULL_MESSAGE: ("pull", lambda _peer, _command: b"messages")}
    guarded = while_following(reads, lambda: states.pop(0), lambda: not_leader(""))
    name, pull = guarded[RequestCode.PULL_MESSAGE]
    assert (name, pull(None, None)) == ("pull", b"messages")
    with pytest.raises(RefusedRequest) as refused:
        pull(None, None)
    assert refused.value.fields["gantryCode"] == "NOT_LEADER"
