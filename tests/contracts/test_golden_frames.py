"""Our codecs decode frames captured from RocketMQ's broker, nameserver and clients to the same values as RocketMQ.

Every `# name: value` line of a golden file is compared; format in golden/README.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pytest
from golden_files import GOLDEN, Fields, assert_record, read_golden, under

from gantry_wire.bodies.admin import (
    BrokerStatsData,
    ConsumerConnection,
    ConsumeStats,
    ConsumeStatsList,
    GroupForbidden,
    HARuntimeInfo,
    ProducerTableInfo,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QuerySubscriptionResponseBody,
    SetMessageRequestMode,
    TopicStatsTable,
)
from gantry_wire.bodies.clients import (
    CheckClientRequestBody,
    ConsumerIdList,
    GetConsumerStatusBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    ResetOffsetBody,
)
from gantry_wire.bodies.cluster import ClusterInfo, KVTable, RegisterBrokerBody, TopicList, TopicRouteData
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.bodies.register_broker import decode_register_body
from gantry_wire.codes import LanguageCode, RequestCode
from gantry_wire.frames.binary_header import decode_binary_header, encode_binary_header
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.frame_stream import BINARY, FrameDecoder, RawFrame
from gantry_wire.headers.admin import (
    BrokerConsumeStatsHeader,
    CloneGroupOffsetHeader,
    ConsumerStatusHeader,
    ConsumeStatsHeader,
    ConsumeTimeSpanHeader,
    CorrectionOffsetHeader,
    CreateTopicHeader,
    GroupForbiddenHeader,
    GroupTopicHeader,
    QueryConsumeQueueHeader,
    ResetOffsetHeader,
    StatsHeader,
)
from gantry_wire.headers.messages import (
    ConsumerGroupHeader,
    ConsumerSendBackHeader,
    EndTransactionHeader,
    OffsetReplyHeader,
    PullHeader,
    PullReplyHeader,
    PushReplyHeader,
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    QueryMessageReplyHeader,
    QueueHeader,
    RecallHeader,
    RecallReplyHeader,
    ResetClientOffsetHeader,
    SearchOffsetHeader,
    SendHeader,
    SendHeaderV2,
    SendReplyHeader,
    TimestampReplyHeader,
    UnregisterClientHeader,
    UpdateConsumerOffsetHeader,
    ViewMessageHeader,
)
from gantry_wire.headers.nameserver import (
    BrokerIdentityHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    RouteHeader,
    TopicHeader,
)
from gantry_wire.headers.typed_header import Header
from gantry_wire.messages.batch import decode_batch, encode_batch
from gantry_wire.records.message_record import rebuild_record, scan_records

FRAMES = GOLDEN / "frames"
FILES = sorted(FRAMES.glob("*.hex"))

REQUEST_HEADERS: dict[int, type[Header]] = {
    10: SendHeader, 310: SendHeaderV2, 320: SendHeaderV2, 11: PullHeader, 361: PullHeader, 12: QueryMessageHeader,
    14: QueryConsumerOffsetHeader, 15: UpdateConsumerOffsetHeader, 17: CreateTopicHeader, 29: SearchOffsetHeader,
    30: QueueHeader, 31: QueueHeader, 32: QueueHeader, 33: ViewMessageHeader, 35: UnregisterClientHeader,
    36: ConsumerSendBackHeader, 37: EndTransactionHeader, 38: ConsumerGroupHeader, 40: ConsumerGroupHeader,
    103: RegisterBrokerHeader, 104: BrokerIdentityHeader, 105: RouteHeader, 220: ResetClientOffsetHeader,
    221: ConsumerStatusHeader, 222: ResetOffsetHeader, 223: ConsumerStatusHeader, 324: SendHeader, 325: SendHeaderV2,
    326: PushReplyHeader, 370: RecallHeader, 202: TopicHeader, 203: ConsumerGroupHeader, 208: ConsumeStatsHeader,
    303: ConsumeTimeSpanHeader, 308: CorrectionOffsetHeader, 314: CloneGroupOffsetHeader, 315: StatsHeader,
    317: BrokerConsumeStatsHeader, 321: QueryConsumeQueueHeader, 345: GroupTopicHeader, 353: GroupForbiddenHeader,
}  # fmt: skip
REPLY_HEADERS: dict[int, type[Header]] = {
    10: SendReplyHeader, 310: SendReplyHeader, 320: SendReplyHeader, 11: PullReplyHeader, 361: PullReplyHeader,
    12: QueryMessageReplyHeader, 14: OffsetReplyHeader, 29: OffsetReplyHeader, 30: OffsetReplyHeader,
    31: OffsetReplyHeader, 32: TimestampReplyHeader, 103: RegisterBrokerReplyHeader, 324: SendReplyHeader,
    325: SendReplyHeader, 370: RecallReplyHeader,
}  # fmt: skip
WITH_HEADER = {0, 10, 11, 12, 19, 20, 21}
"""Response codes with a header; an error response has none."""
REQUEST_BODIES: dict[int, type] = {
    34: HeartbeatData, 41: LockBatchRequestBody, 42: LockBatchRequestBody, 46: CheckClientRequestBody, 220: ResetOffsetBody,
    401: SetMessageRequestMode,
}  # fmt: skip
REWRITTEN_TO_THE_BYTE = {202, 203, 208, 308, 315, 317, 328, 345, 353, 401, 907}
"""Bodies that tools parse by shape: ours equal fastjson's byte for byte."""
REPLY_BODIES: dict[int, type] = {
    38: ConsumerIdList, 41: LockBatchResponseBody, 103: KVTable, 105: TopicRouteData, 106: ClusterInfo, 206: TopicList,
    221: GetConsumerStatusBody, 222: ResetOffsetBody, 223: GetConsumerStatusBody,
    28: KVTable, 202: TopicStatsTable, 203: ConsumerConnection, 208: ConsumeStats, 303: QueryConsumeTimeSpanBody,
    308: QueryCorrectionOffsetBody, 315: BrokerStatsData, 317: ConsumeStatsList, 321: QueryConsumeQueueResponseBody,
    328: ProducerTableInfo, 345: QuerySubscriptionResponseBody, 353: GroupForbidden, 907: HARuntimeInfo,
}  # fmt: skip


def request_code(path: Path) -> int:
    fields, _ = read_golden(path.with_name(path.name.replace(".reply.", ".request.")))
    return int(str(fields["code"]))


def is_reply(path: Path) -> bool:
    return ".reply." in path.name


@pytest.fixture(params=FILES, ids=lambda path: path.name.removesuffix(".hex"))
def golden(request) -> Golden:
    return Golden(request.param)


class Golden:
    """One golden file, its frame decoded by our codecs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fields, sections = read_golden(path)
        self.data = sections[""]
        (self.raw,) = FrameDecoder().receive(self.data)
        self.command = decode_command(self.raw)
        self.request_code = request_code(path)
        self.is_reply = is_reply(path)

    @property
    def ext(self) -> dict[str, str]:
        found = under(self.fields, "ext").items()
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found}

    def items(self, kind: str) -> list[Fields]:
        count = self.fields.get(kind + "s", self.fields.get(kind, 0))
        assert isinstance(count, int)
        return [under(self.fields, f"{kind}.{number}") for number in range(count)]


def test_the_capture_exists():
    assert len(FILES) >= 170


def test_frame_and_header_decode_as_captured(golden):
    fields, raw, command = golden.fields, golden.raw, golden.command
    assert fields["frame.length"] == len(golden.data) - 4
    assert (fields["frame.serializeType"], fields["header.length"]) == (raw.serialize_type, len(raw.header))
    assert (fields["code"], fields["version"], fields["opaque"]) == (
        command.code,
        command.version,
        command.opaque,
    )
    assert (fields["flag"], fields["remark"]) == (command.flag, command.remark)
    language = LanguageCode[command.language].value if raw.serialize_type == BINARY else command.language
    assert fields["language"] == language
    assert command.is_response is golden.is_reply
    assert (fields["body.length"], fields.get("body.crc32", 0)) == (len(raw.body), crc32(raw.body))
    if "body.text" in fields:
        assert fields["body.text"] == raw.body.decode()


def test_ext_fields_decode_as_captured(golden):
    command, ext = golden.command, golden.ext
    assert golden.fields["extFields"] in (None, len(ext))
    if isinstance(command.fields, dict):
        assert command.fields == ext
    kinds = REPLY_HEADERS if golden.is_reply else REQUEST_HEADERS
    kind = kinds.get(golden.request_code)
    if kind is None or (golden.is_reply and (not ext or command.code not in WITH_HEADER)):
        return
    known = command.read(kind).to_fields()
    assert known
    for name, value in known.items():
        expected = {"1": "true", "0": "false"}.get(ext[name]) if value in {"true", "false"} else ext[name]
        assert value == (expected or ext[name]), name


def test_stored_messages_decode_as_captured_and_are_rebuilt_byte_for_byte(golden):
    wanted = golden.items("message")
    if "messages" not in golden.fields:
        assert not wanted
        return
    records = list(scan_records(golden.raw.body))
    assert len(records) == len(wanted) > 0
    for record, fields in zip(records, wanted, strict=True):
        assert_record(record, fields)
    assert b"".join(map(rebuild_record, records)) == golden.raw.body


def test_batches_decode_as_captured_and_are_rebuilt_byte_for_byte(golden):
    if "batch" not in golden.fields:
        return
    items = decode_batch(golden.raw.body)
    wanted = golden.items("batch")
    assert len(items) == len(wanted) > 0
    for item, fields in zip(items, wanted, strict=True):
        assert (item.flag, item.body.decode(), item.properties.decode()) == (
            fields["flag"],
            fields["body"],
            fields["properties"],
        )
    assert encode_batch(items) == golden.raw.body


def test_typed_bodies_survive_decoding_and_encoding(golden):
    kinds = REPLY_BODIES if golden.is_reply else REQUEST_BODIES
    kind = kinds.get(golden.request_code)
    if kind is None or not golden.raw.body:
        return
    body = decode_body(golden.raw.body, kind)
    assert decode_body(encode_body(body), kind) == body
    assert decode_body(encode_body(body, standard=True), kind) == body
    if golden.request_code in REWRITTEN_TO_THE_BYTE:
        assert encode_body(body) == golden.raw.body


def test_binary_headers_are_rebuilt_byte_for_byte():
    binary = [golden for golden in map(Golden, FILES) if golden.raw.serialize_type == BINARY]
    assert len(binary) >= 8
    for golden in binary:
        assert encode_binary_header(decode_binary_header(golden.raw.header)) == golden.raw.header


def test_register_bodies_hold_the_same_topics_in_both_formats():
    plain = Golden(FRAMES / "register-103-json.request.hex")
    zipped = Golden(FRAMES / "register-103-zlib-mislabelled.request.hex")
    for golden in (plain, zipped):
        header = golden.command.read(RegisterBrokerHeader)
        body = decode_register_body(golden.raw.body, compressed=header.compressed)
        assert isinstance(body, RegisterBrokerBody)
        topics = body.topic_config_serialize_wrapper.topic_config_table
        assert topics["TBW102"].perm == 7
        assert all(name == topic.topic_name for name, topic in topics.items())


def test_any_split_of_the_captured_stream_gives_the_captured_frames():
    stream = b"".join(read_golden(path)[1][""] for path in FILES)
    whole = FrameDecoder().receive(stream)
    assert len(whole) == len(FILES)
    for step in (1, 7, 1000):
        decoder = FrameDecoder()
        found: list[RawFrame] = []
        for at in range(0, len(stream), step):
            found += decoder.receive(stream[at : at + step])
        assert found == whole
        assert decoder.buffered_bytes == 0


def test_every_captured_request_code_is_known():
    codes = {request_code(path) for path in FILES} - {9999}
    assert codes <= {int(code) for code in RequestCode}
    assert all(isinstance(Golden(path).command, Command) for path in FILES[:1])
