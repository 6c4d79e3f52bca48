"""A replica with access control that is replaced, or asked to stop, while its start stores the first user: the process ends all the same."""

import contextlib
import http.client
import json
import secrets
from base64 import b64encode

import pytest
from group_stores import CONTINUE, STOP, StoreGroup
from nats_nodes import nodes

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NO_NAMESERVER = "127.0.0.1:1"
"""A store that is to read the users of others looks for them for some seconds, in which this test stops the followers."""


@pytest.fixture
def group(tmp_path):
    key, first = tmp_path / "access.key", tmp_path / "first.json"
    key.write_text(f"k1 {b64encode(secrets.token_bytes(32)).decode()}\n")
    first.write_text(json.dumps({"username": "admin", "password": secrets.token_urlsafe(16)}))
    key.chmod(0o600)
    first.chmod(0o600)
    guarded = {"access_key_file": key, "access_initial_user_file": first, "nameservers": NO_NAMESERVER}
    with nodes(tmp_path / "nats", 1) as (node,):
        group = StoreGroup(tmp_path, node.url, servers=1, **guarded)
        try:
            group.start()
            yield group
        finally:
            group.close()


def said(group, name):
    return (group.folder / f"{name}.log").read_text()


def why_not_ready(store):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return store.get("/health/ready")[1]
    return {}


def test_a_leader_that_waits_for_its_first_user_to_be_confirmed_ends_when_it_is_asked_to(group):
    reading = "reading the users of the other stores"
    leader = group.stores["a"]
    group.wait(lambda: reading in str(why_not_ready(leader)), "it does not come to its users")
    followers = [store for store in group.stores.values() if store is not leader]
    for store in followers:
        store.signal(STOP)
    group.wait(lambda: "no other store was read" in said(group, "a"), "it still reads other stores")
    assert "the first user was made" not in said(group, "a")
    assert leader.stop() == 0
    for store in followers:
        store.signal(CONTINUE)
    leader.start()  # on a busy machine the others may not have joined its set yet: then they cannot lead
    following = group.leader()
    group.wait(lambda: following.get("/health/ready")[0] == 200, "the next leader has no user")
