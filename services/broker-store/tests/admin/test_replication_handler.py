"""What RocketMQ's tools ask a leader about its replicas."""

import pytest

from broker_store.admin.replication_handler import Copy, ReplicationHandlers
from gantry_wire.bodies.admin import EpochEntryCache, HARuntimeInfo
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder


class Led:
    """A group of three."""

    def copies(self):
        return [
            Copy("m2:10911", 900, 950, 70, is_in_sync=True),
            Copy("m3:10911", 100, 300, 20, is_in_sync=False),
        ]

    def epochs(self):
        return [(1, 0, 400), (3, 400, 1000)]


def ask(handlers, code, body):
    (raw,) = FrameDecoder().receive(encode_request(code, 7, None))
    _, handler = handlers.commands()[code]
    (answer,) = FrameDecoder().receive(handler(None, decode_command(raw)))
    return decode_body(decode_command(answer).body, body)


def test_a_leader_says_how_far_each_replica_is():
    status = ask(ReplicationHandlers(lambda: 1000, Led(), "c", "broker-a"), 907, HARuntimeInfo)
    assert (status.is_master, status.in_sync_slave_nums, status.master_commit_log_max_offset) == (
        True,
        1,
        1000,
    )
    near, far = status.ha_connection_info
    assert (near.addr, near.diff, near.slave_ack_offset, near.in_sync) == ("m2:10911", 100, 900, True)
    assert (far.diff, far.transfer_from_where, far.transferred_byte_in_second) == (900, 300, 20)
    assert not far.in_sync


def test_slaves_of_rocketmq_are_shown_behind_the_replicas():
    slave = Copy("s1:4711", 600, 700, 10, is_in_sync=True)
    handlers = ReplicationHandlers(lambda: 1000, Led(), "c", "broker-a", slaves=lambda: [slave])
    status = ask(handlers, 907, HARuntimeInfo)
    assert [one.addr for one in status.ha_connection_info] == ["m2:10911", "m3:10911", "s1:4711"]
    assert (status.ha_connection_info[2].diff, status.in_sync_slave_nums) == (400, 2)
    alone = ReplicationHandlers(lambda: 1000, None, "c", "broker-a", slaves=lambda: [slave])
    assert [one.addr for one in ask(alone, 907, HARuntimeInfo).ha_connection_info] == ["s1:4711"]


def test_a_leader_says_which_epoch_wrote_what():
    found = ask(ReplicationHandlers(lambda: 1000, Led(), "c", "broker-a"), 1007, EpochEntryCache)
    assert (found.cluster_name, found.broker_name, found.broker_id, found.max_offset) == (
        "c",
        "broker-a",
        0,
        1000,
    )
    assert [(one.epoch, one.start_offset, one.end_offset) for one in found.epoch_list] == [
        (1, 0, 400),
        (3, 400, 1000),
    ]


def test_a_store_without_replicas_has_no_epochs():
    with pytest.raises(RefusedRequest, match="no replicas") as refused:
        ask(ReplicationHandlers(lambda: 1000, None, "c", "broker-a"), 1007, EpochEntryCache)
    assert refused.value.code == 1
