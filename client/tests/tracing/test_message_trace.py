from gantrymq import Message, MessageQueue, SendResult
from gantrymq.hooks import EndContext, SendContext
from gantrymq.tracing.records import (
    TRACE_BYTES_MAX,
    MessageType,
    TraceRecord,
    after_record,
    before_record,
    ended_record,
    sent_record,
    trace_messages,
)

MESSAGE = Message("T", b"four", tag="paid", keys=["k1", "k2"])
MESSAGE.unique_id = "UID"
RESULT = SendResult("UID", MessageQueue("T", "b", 1), 5, "OFFSETID", region="DefaultRegion")


def context():
    return SendContext(
        "g", [MESSAGE], "b", "10.0.0.1:10911", "normal", 1700000000000, 0.0, seconds=0.0123, results=[RESULT]
    )


def test_a_sent_message_is_recorded_as_rocketmq_does():
    record = sent_record(context(), MESSAGE, RESULT, MessageType.NORMAL, "DefaultRegion")
    assert record.text == (
        "Pub\x011700000000000\x01DefaultRegion\x01g\x01T\x01UID\x01paid\x01k1 k2\x0110.0.0.1:10911\x014\x0112\x010"
        "\x01OFFSETID\x01true\x02"
    )
    assert record.keys == ("UID", "k1", "k2")


def test_a_failed_message_is_recorded_as_failed():
    fields = sent_record(context(), MESSAGE, None, MessageType.HALF, "R").text.rstrip("\x02").split("\x01")
    assert fields[-3:] == ["1", "", "false"]


def test_consumption_is_recorded_before_and_after():
    before = before_record("g", "R", "req", started_ms=1, message_id="UID", retries=2, keys="k")
    assert before.text == "SubBefore\x011\x01R\x01g\x01req\x01UID\x012\x01k\x02"
    after = after_record(
        "g", "req", message_id="UID", milliseconds=3, success=True, keys="k", context_code=0, ended_ms=9
    )
    assert after.text == "SubAfter\x01req\x01UID\x013\x01true\x01k\x010\x019\x01g\x02"


def test_a_decision_is_recorded():
    ended = EndContext("g", MESSAGE, "10.0.0.1:10911", "TX", "COMMIT_MESSAGE", True, 1)
    assert ended_record(ended, "R").text == (
        "EndTransaction\x011\x01R\x01g\x01T\x01UID\x01paid\x01k1 k2\x0110.0.0.1:10911\x012\x01TX\x01COMMIT_MESSAGE\x01true\x02"
    )


def test_separators_in_names_do_not_break_the_format():
    assert (
        before_record("g\x01h", "R\x02", "q", started_ms=1, message_id="m", retries=0, keys="").text.count(
            "\x01"
        )
        == 7
    )


def test_records_share_messages_of_bounded_size_found_by_all_their_keys():
    records = [TraceRecord("x" * 1000, (f"id-{n}", "same")) for n in range(300)]
    messages = trace_messages("TRACE", records)
    assert len(messages) == 3
    assert all(len(message.body) <= TRACE_BYTES_MAX for message in messages)
    assert b"".join(message.body for message in messages) == b"x" * 300_000
    assert messages[0].keys.split()[:3] == ["id-0", "same", "id-1"]
    assert sum(len(message.keys.split()) - 1 for message in messages) == 300
