"""A replica that leads and does not serve yet refuses the reads that it answered as a follower."""

import pytest

from broker_store.process.following.service import while_following
from broker_store.process.group.follower_table import not_leader
from gantry_wire.codes import RequestCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.private_requests.leading import LEADER_FIELD


def test_reads_are_refused_from_the_moment_on_that_the_replica_leads():
    states = [False, True]
    reads = {RequestCode.PULL_MESSAGE: ("pull", lambda _peer, _command: b"messages")}
    guarded = while_following(reads, lambda: states.pop(0), lambda: not_leader(""))
    name, pull = guarded[RequestCode.PULL_MESSAGE]
    assert (name, pull(None, None)) == ("pull", b"messages")
    with pytest.raises(RefusedRequest) as refused:
        pull(None, None)
    assert refused.value.fields["gantryCode"] == "NOT_LEADER"


def test_a_refusal_names_the_leader():
    refused = not_leader("10.0.0.2:10911")
    assert refused.fields is not None
    assert refused.fields[LEADER_FIELD] == "10.0.0.2:10911"
    assert "10.0.0.2:10911 leads" in refused.remark


def test_a_refusal_without_the_address_of_the_leader_does_not_say_that_none_leads():
    """With access control no stranger gets the address, while a leader serves."""
    refused = not_leader("")
    assert refused.fields is not None
    assert LEADER_FIELD not in refused.fields
    assert "no leader" not in refused.remark
    assert "read the route again" in refused.remark
