"""The reading side of the real process: durable commits, held pulls, clients that do not read."""

import socket
import threading
import time

import pytest
from test_broker_store_process import Client, start  # noqa: F401 - a fixture is used by its name

from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import PullHeader
from gantry_wire.records.message_record import scan_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

GROUP = b'{"groupName":"g"}'


def pull(offset=0, *, suspend_ms=0, group="TOOLS_CONSUMER"):
    return PullHeader(
        consumer_group=group,
        topic="orders",
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=6 if suspend_ms else 4,
        suspend_timeout_millis=suspend_ms,
        subscription="*",
    )


def offsets(value=None):
    fields = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    return fields if value is None else {**fields, "commitOffset": str(value)}


def test_an_answered_commit_and_its_group_survive_kill_9(start):  # noqa: F811
    store = start()
    client = Client(store.port)
    client.send(b"m")
    assert client.ask(200, body=GROUP).code == 0
    for value in range(1, 20):
        assert client.ask(15, offsets(value)).code == 0
    store.kill()
    client = Client(start().port)
    assert client.ask(14, offsets()).ext["offset"] == "19"
    assert client.ask(352, {"group": "g"}).code == 0


def test_offsets_committed_one_way_are_saved_by_an_orderly_stop(start):  # noqa: F811
    store = start()
    client = Client(store.port)
    client.send(b"m")
    client.ask(200, body=GROUP)
    client.socket.sendall(encode_request(15, 9, offsets(7), oneway=True))
    assert client.ask(14, offsets()).ext["offset"] == "7"
    assert store.stop() == 0
    assert Client(start().port).ask(14, offsets()).ext["offset"] == "7"


def test_a_held_pull_is_answered_as_soon_as_its_message_can_be_read(start):  # noqa: F811
    port = start().port
    reader, writer = Client(port), Client(port)
    writer.send(b"first")
    reader.socket.sendall(encode_request(11, 1, pull(1, suspend_ms=15_000)))
    time.sleep(0.3)
    writer.send(b"second")
    answer = reader.answer()
    assert answer.code == 0, "answered by the append, not by the end of the hold"
    assert [record.body for record in scan_records(answer.body)] == [b"second"]


def test_held_pulls_are_answered_before_the_store_stops(start):  # noqa: F811
    store = start()
    reader = Client(store.port)
    reader.send(b"m")
    reader.socket.sendall(encode_request(11, 1, pull(1, suspend_ms=60_000)))
    time.sleep(0.3)
    stopper = threading.Thread(target=store.stop)
    stopper.start()
    assert reader.answer().code == 19
    stopper.join()


def test_a_client_that_does_not_read_is_closed_and_slows_no_other(start, fair_clock):  # noqa: F811
    store = start("output_bytes_max=1048576")
    client = Client(store.port)
    for _ in range(4):
        client.send(b"x" * 200_000)
    stalled = socket.create_connection(("127.0.0.1", store.port), timeout=60)
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    request = encode_request(11, 1, pull())
    refused = False
    slowest = 0.0
    for _ in range(200):
        try:
            stalled.sendall(request)
        except OSError:
            refused = True
            break
        began = fair_clock()
        assert client.pull(0).code == 0
        slowest = max(slowest, fair_clock() - began)
    stalled.close()
    assert refused
    assert "connections_closed_stalled_total 1.0" in store.get("/metrics")[1].decode()
    assert slowest < 2.0


def test_metrics_of_reading_are_shown(start):  # noqa: F811
    store = start()
    client = Client(store.port)
    client.send(b"m")
    client.ask(11, pull())
    text = store.get("/metrics")[1].decode()
    for line in (
        'gantry_store_get_messages_total{group="TOOLS_CONSUMER",topic="orders"} 1.0',
        "gantry_store_held_pulls 0.0",
        "gantry_store_dispatch_behind_bytes 0.0",
        'gantry_store_requests_head_wait_seconds{class="pull"} 0.0',
    ):
        assert line in text
