"""The bytes of the HA protocol are those of RocketMQ's own master and slave."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker_store.ha.frames import HEAD, ReportStream, head

GOLDEN = Path(__file__).parent / "golden"


def test_a_report_is_a_position_of_eight_bytes():
    assert ReportStream().receive(bytes.fromhex("000000000000012c")) == [300]
    assert ReportStream().receive(bytes.fromhex("ffffffffffffffff")) == [-1]


def test_a_head_is_a_position_and_a_size():
    assert head(300, 7) == bytes.fromhex("000000000000012c00000007")
    assert head(300, 0) == bytes.fromhex("000000000000012c00000000")


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), st.lists(st.integers(0, 40)))
def test_reports_are_the_same_however_their_bytes_are_cut(positions, cuts):
    data = b"".join(position.to_bytes(8, "big", signed=True) for position in positions)
    stream, found, at = ReportStream(), [], 0
    for cut in [*cuts, len(data)]:
        found += stream.receive(data[at : at + cut])
        at += cut
    assert found == positions


def test_what_a_slave_of_rocketmq_sends_is_read_as_reports():
    golden = json.loads((GOLDEN / "rocketmq-5.3.3.json").read_text())
    sent = bytes.fromhex(golden["slave"])
    stream = ReportStream()
    found = [position for at in range(len(sent)) for position in stream.receive(sent[at : at + 1])]
    assert found == golden["reports"]
    assert found == sorted(found)


def test_a_master_of_rocketmq_frames_its_log_as_this_one_does():
    golden = json.loads((GOLDEN / "rocketmq-5.3.3.json").read_text())
    sent, at, log, ours = bytes.fromhex(golden["master"]), 0, b"", b""
    while at < len(sent):
        position, size = HEAD.unpack_from(sent, at)
        data = sent[at + HEAD.size : at + HEAD.size + size]
        assert position == len(log)
        log += data
        ours += head(position, size) + data
        at += HEAD.size + size
    assert ours == sent
    assert len(log) == golden["reports"][-1]
    assert log[4:8].hex() == "daa320a7"  # a message record
