"""Delays, retries and locks of the real process, across kill -9."""

import os
import time

import msgspec
import pytest
from test_broker_store_process import Client, start  # noqa: F401 - the fixture

from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import ConsumerSendBackHeader, RecallHeader, SendReplyHeader
from gantry_wire.records.message_record import scan_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
FREED_SECONDS_MAX = 45
"""Less than the minute that a lock lives: a queue that is free before was released early."""


def locked(client: Client, name: str, *queues: int) -> list[int]:
    body = {
        "clientId": name,
        "consumerGroup": "orderly",
        "mqSet": [{"brokerName": "broker-a", "queueId": queue, "topic": "orders"} for queue in queues],
    }
    answer = client.ask(RequestCode.LOCK_BATCH_MQ, None, msgspec.json.encode(body))
    assert answer.code == 0, answer.remark
    return [queue["queueId"] for queue in msgspec.json.decode(answer.body)["lockOKMQSet"]]


def schedules(client: Client, topic: str, queue_id: int) -> list[dict[str, str]]:
    answer = client.pull(0, topic, queue_id)
    return [record.property_map() for record in scan_records(answer.body)] if answer.code == 0 else []


def test_delays_and_send_backs_survive_kill_9(start):  # noqa: F811
    store = start()
    client = Client(store.port)
    sent = client.send(b"a", properties="UNIQ_KEY\x01U1\x02").read(SendReplyHeader)
    position = int(sent.msg_id[-16:], 16)
    delayed = client.send(b"b", properties="UNIQ_KEY\x01U2\x02DELAY\x015\x02").read(SendReplyHeader)
    timed = client.send(b"c", properties="UNIQ_KEY\x01U3\x02TIMER_DELAY_MS\x013600000\x02").read(
        SendReplyHeader
    )
    assert delayed.deliver_ms is not None
    assert timed.recall_handle is not None
    back = ConsumerSendBackHeader(offset=position, group="g", delay_level=0)
    assert client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code == 0
    store.kill()

    client = Client(start().port)
    assert (
        client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code == 0
    )  # found below what the last run wrote
    recall = RecallHeader(topic="orders", recall_handle=timed.recall_handle)
    assert client.ask(RequestCode.RECALL_MESSAGE, recall).fields["msgId"] == "U3"
    copies = schedules(client, "SCHEDULE_TOPIC_XXXX", 2)
    assert [copy["REAL_TOPIC"] for copy in copies] == ["%RETRY%g", "%RETRY%g"]
    assert [copy["UNIQ_KEY"] for copy in schedules(client, "SCHEDULE_TOPIC_XXXX", 4)] == ["U2"]
    timers = schedules(client, "rmq_sys_wheel_timer", 0)
    assert [timer.get("TIMER_DEL_UNIQKEY") for timer in timers] == [None, "orders+U3"]
    assert {timer["TIMER_OUT_MS"] for timer in timers} == {str(timed.deliver_ms)}


def test_one_consumer_holds_a_queue_also_across_kill_9_until_it_leaves(start):  # noqa: F811
    store = start()
    assert locked(Client(store.port), "c1", 0, 1) == [0, 1]
    store.kill()

    store = start()
    first, second = Client(store.port), Client(store.port)
    assert locked(second, "c2", 0, 1, 2) == [2]
    assert locked(first, "c1", 0, 1) == [0, 1]
    first.socket.close()
    give_up_s = time.monotonic() + FREED_SECONDS_MAX
    while locked(second, "c2", 0, 1) != [0, 1]:
        assert time.monotonic() < give_up_s, "the queues of a client that closed its connection stay locked"
        time.sleep(0.05)


def test_a_bad_list_of_levels_refuses_the_start(tmp_path):
    import subprocess
    import sys

    from test_broker_store_process import SOURCES

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    arguments = ["--set", f"store_dir={tmp_path}", "--set", "port=0", "--set", "delay_levels=1s 5s 10"]
    done = subprocess.run(
        [sys.executable, "-m", "broker_store", *arguments],
        capture_output=True, text=True, timeout=120, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "delay level 3 is '10'" in done.stderr
