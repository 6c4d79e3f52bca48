"""The lead of a register does not stay on the NATS server of the machine of the store that leads."""

import time

import pytest
from group_stores import JETSTREAM, StoreGroup, ask_nats
from nats_nodes import nodes
from test_store_group import send_many

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

STREAM = "GANTRY_REGISTER_broker-a"
SECONDS_MAX = 120


def place_of(group):
    """Return the server that leads the register, empty while there is an election."""
    return ask_nats(group, f"{JETSTREAM}.INFO.{STREAM}").get("cluster", {}).get("leader", "")


def test_the_lead_of_the_register_is_moved_off_the_first_server_and_sends_continue(tmp_path):
    with nodes(tmp_path / "nats", 3) as servers:
        first = servers[0].name
        group = StoreGroup(tmp_path, ",".join(one.url for one in servers), servers=3)
        try:
            group.start()
            group.wait_for_set(3)
            until = time.monotonic() + SECONDS_MAX
            group.nats_url = servers[0].url  # of the requests of this test
            while place_of(group) != first:
                assert time.monotonic() < until, f"{first} does not get the lead"
                ask_nats(group, f"{JETSTREAM}.LEADER.STEPDOWN.{STREAM}")
                time.sleep(0.3)
            group.wait(lambda: place_of(group) not in {"", first}, f"the lead stays at {first}")
            assert len(send_many(group.leader(), 0, 20)) == 20
        finally:
            group.close()
