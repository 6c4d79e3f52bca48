"""POST /snapshots while queues are removed."""

import json
import os
from types import SimpleNamespace

import pytest
from sending_side import DIRECTORY, ScriptedPeer, SendingSide

from broker_store.log.snapshot import Snapshots
from broker_store.process.http_routes import SnapshotRoutes
from broker_store.process.snapshot_content import served
from gantry_chassis.machine.environment import machine

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("removals", "status"), [(1, 201), (99, 503)])
async def test_a_snapshot_is_begun_again_when_a_topic_is_deleted_before_its_queues_are_copied(
    anyio_backend, monkeypatch, removals, status
):
    side, topics = SendingSide(), [f"t{number}" for number in range(4)]
    for topic in topics:
        side.send(ScriptedPeer(), topic, b"m", 0, properties={"UNIQ_KEY": "U"})
    side.flush()
    snapshots = Snapshots(side.files, DIRECTORY, os.urandom)
    routes = SnapshotRoutes(snapshots, machine().workers(1, "snapshots"), lambda: 1000)
    routes.open(lambda: served(side.store, "ab" * 16))
    right = snapshots.finish

    def delete_and_finish(plan):
        if len(topics) > 4 - removals and topics:
            side.store.queues.remove(topics.pop())
        return right(plan)

    monkeypatch.setattr(snapshots, "finish", delete_and_finish)
    response = await routes.make(SimpleNamespace(query={}))
    assert response.status == status
    kept = side.files.listdir(f"{DIRECTORY}/gantry/snapshots")
    assert kept == ([json.loads(response.body)["id"]] if status == 201 else [])
