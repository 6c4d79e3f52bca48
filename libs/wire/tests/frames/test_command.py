"""Headers are read in every form that RocketMQ's clients send; anything else is a documented error."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedHeader, MissingField, WireError
from gantry_wire.frames.command import Command, decode_command, decode_whole_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, JSON, FrameDecoder, RawFrame
from gantry_wire.headers.messages import (
    PullHeader,
    PullReplyHeader,
    QueueHeader,
    SendHeader,
    SendHeaderV2,
    SendReplyHeader,
)

V2_FIELDS = {
    "a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": "1700000000000", "h": "0",
    "i": "TAGS\x01a\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


def json_frame(content: object) -> RawFrame:
    return RawFrame(0, json.dumps(content, separators=(",", ":")).encode(), b"body")


def command(fields: object, code: int = 310, **more: object) -> Command:
    return decode_command(json_frame({"code": code, "extFields": fields, "flag": 0, "opaque": 7, **more}))


def test_a_send_is_decoded_directly_to_its_typed_header():
    read = command(V2_FIELDS, language="JAVA", version=479)
    assert type(read.fields) is SendHeaderV2
    header = read.read(SendHeader)
    assert (header.topic, header.queue_id, header.born_timestamp) == ("T", 2, 1700000000000)
    assert (header.unit_mode, header.batch, header.max_reconsume_times) == (False, False, None)
    assert (read.code, read.opaque, read.language, read.version, read.body) == (310, 7, "JAVA", 479, b"body")


def test_the_typed_and_the_tolerant_reader_agree():
    assert command(V2_FIELDS).read(SendHeader) == command({**V2_FIELDS, "z": {"deep": 1}}).read(SendHeaderV2)
    loose = command({**V2_FIELDS, "b": 5, "e": 2, "k": False, "m": "0"})
    assert isinstance(loose.fields, dict)
    header = loose.read(SendHeaderV2)
    assert (header.topic, header.queue_id, header.unit_mode, header.batch) == ("5", 2, False, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("TRUE", True),
        ("1", True),
        ("false", False),
        ("0", False),
        ("yes", False),
        ("", False),
    ],
)
def test_booleans_of_java_and_of_the_cpp_client_are_read(text, expected):
    assert command({**V2_FIELDS, "k": text}).read(SendHeaderV2).unit_mode is expected


def test_full_field_names_of_an_old_producer_are_read():
    fields = {
        "producerGroup": "pg", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 3,
        "sysFlag": 0, "bornTimestamp": "1", "flag": 0, "properties": "", "unitMode": "0", "AccessKey": "",
    }  # fmt: skip
    read = decode_command(json_frame({"code": 10, "extFields": fields, "remark": "", "version": 63}))
    assert type(read.fields) is SendHeader
    assert (read.fields.queue_id, read.fields.unit_mode, read.remark) == (3, False, "")


@pytest.mark.parametrize("value", ["x", "", "99999999999", "1.5", "0x1"])
def test_an_unreadable_required_field_is_named(value):
    read = command({**V2_FIELDS, "e": value})
    with pytest.raises(MissingField, match="field e") as caught:
        read.read(SendHeaderV2)
    assert (caught.value.field, caught.value.close) == ("e", False)


def test_a_plus_sign_is_read_as_in_java():
    assert command({**V2_FIELDS, "e": "+5"}).read(SendHeaderV2).queue_id == 5


def test_an_unreadable_optional_field_counts_as_absent():
    header = command({**V2_FIELDS, "j": "many", "l": "+99999999999999"}).read(SendHeaderV2)
    assert (header.reconsume_times, header.max_reconsume_times) == (None, None)


@pytest.mark.parametrize("more", [{}, {"extFields": None}])
def test_absent_ext_fields_are_an_error_only_if_one_is_required(more):
    read = decode_command(json_frame({"code": 310, "opaque": 1, **more}))
    assert (read.fields, read.ext, read.version, read.flag) == (None, {}, 0, 0)
    with pytest.raises(MissingField):
        read.read(SendHeader)


def test_a_header_of_another_type_is_read_through_its_text_fields():
    read = decode_command(json_frame({"code": 310, "extFields": V2_FIELDS, "x": 1}))
    with pytest.raises(MissingField):
        read.read(PullHeader)
    pull = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "1",
        "queueOffset": "5",
        "maxMsgNums": "32",
        "sysFlag": "2",
    }
    assert command(pull, code=11).read(QueueHeader).queue_id == 1


@pytest.mark.parametrize(
    ("language", "expected"), [("CPP", "CPP"), (1, "CPP"), (99, "OTHER"), (None, "OTHER"), ([], "OTHER")]
)
def test_language_is_a_name_an_ordinal_or_unknown(language, expected):
    assert command({"a": 1}, language=language).language == expected


def test_envelope_numbers_are_accepted_as_text():
    read = decode_command(
        json_frame({"code": "34", "opaque": "-5", "flag": "2", "version": None, "remark": 7})
    )
    assert (read.code, read.opaque, read.version, read.remark) == (34, -5, 0, "7")
    assert read.is_oneway
    assert not read.is_response


def test_ext_values_of_any_kind_become_text():
    read = command({"i": 1, "f": 1.5, "t": True, "n": None, "o": {"k": [1]}}, code=999, remark=None)
    assert read.fields == {"i": "1", "f": "1.5", "t": "true", "o": '{"k":[1]}'}


def test_the_body_and_serialization_fields_of_a_header_are_ignored():
    read = decode_command(json_frame({"code": 34, "body": "AAAA", "serialize_type": 1, "fields": {"a": "b"}}))
    assert (read.body, read.serialize_type, read.fields) == (b"body", 0, None)
    assert command(V2_FIELDS, body=5).body == b"body"


@pytest.mark.parametrize(
    "header",
    [
        b"", b"{", b"[]", b"5", b"\xff\xfe", b'{"code":310,"extFields":[]}', b'{"code":1,"extFields":"x"}',
        b'{"code":"x"}', b'{"code":2147483648}', b'{"opaque":{}}', b'{"code":310,"extFields":{"a":"\\ud800"}}',
        b'{"code":310,"x":' + b"[" * 100_000, b'{"code":11,"extFields":' + b'{"a":' * 100_000,
    ],
)  # fmt: skip
def test_an_invalid_header_is_refused_and_closes_the_connection(header):
    with pytest.raises(MalformedHeader) as caught:
        decode_command(RawFrame(0, header, b""))
    assert caught.value.close


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([*"abcdefghijklmn", "topic", "queueId", "queueOffset", "msgId", "nextBeginOffset"])


@given(
    st.sampled_from([0, 10, 11, 19, 21, 34, 310, 320]),
    st.dictionaries(KEYS, JSON_VALUES) | JSON_VALUES,
    st.dictionaries(
        st.sampled_from(["flag", "opaque", "language", "remark", "version", "body"]), JSON_VALUES
    ),
)
def test_any_json_gives_a_command_or_a_documented_error(code, fields, more):
    check_header(json.dumps({"code": code, "extFields": fields, **more}, separators=(",", ":")).encode())


@pytest.mark.parametrize("digits", [19, 20, 400, 5000])
def test_numbers_of_any_length_give_a_command_or_a_documented_error(digits):
    number = b"1" + b"0" * digits
    for text in (number, b'"' + number + b'"', b"-" + number, number + b".5", b"1e" + number[:5]):
        check_header(b'{"code":310,"extFields":{"e":' + text + b',"b":"T"}}')
        check_header(b'{"code":1,"opaque":' + text + b"}")


def check_header(header: bytes) -> None:
    with suppress(WireError):
        read = decode_command(RawFrame(0, header, b""))
        assert all(type(key) is str and type(value) is str for key, value in read.ext.items())
        read.read(SendHeader)


@given(st.binary(max_size=80), st.sampled_from([0, 1]))
def test_any_bytes_give_a_command_or_a_documented_error(header, kind):
    with suppress(MalformedHeader):
        assert isinstance(decode_command(RawFrame(kind, header, b"")), Command)


def test_a_binary_send_equals_a_json_send():
    header = msgspec.convert(V2_FIELDS, SendHeaderV2, strict=False)
    (as_json,) = FrameDecoder().receive(encode_request(310, 9, header, b"x"))
    (as_binary,) = FrameDecoder().receive(encode_request(310, 9, header, b"x", serialize_type=BINARY))
    first, second = decode_command(as_json), decode_command(as_binary)
    assert first.read(SendHeader) == second.read(SendHeaderV2)
    assert (second.serialize_type, second.opaque, second.body, second.language) == (1, 9, b"x", "PYTHON")


@pytest.mark.parametrize(
    ("code", "fields", "kind"),
    [
        (0, {"msgId": "A", "queueId": "1", "queueOffset": "2"}, SendReplyHeader),
        (0, {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "2", "suggestWhichBrokerId": "0"}, PullReplyHeader),
        (19, {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "2", "suggestWhichBrokerId": "0"}, PullReplyHeader),
        (0, {"offset": "5"}, dict),
    ],
)  # fmt: skip
def test_replies_are_decoded_to_their_typed_headers(code, fields, kind):
    read = decode_command(json_frame({"code": code, "extFields": fields, "flag": 1}))
    assert isinstance(read.fields, kind)
    assert read.is_response
    assert read.ext == fields


@pytest.mark.parametrize("kind", [JSON, BINARY])
def test_a_whole_command_has_the_fields_that_the_usual_header_drops(kind):
    fields = dict(V2_FIELDS.items()) | {"AccessKey": "alice", "zz": "é"}
    raw = FrameDecoder().receive(encode_request(310, 7, fields, b"body", serialize_type=kind))[0]
    found = decode_whole_command(raw)
    assert (found.fields, found.body, found.code, found.opaque) == (fields, b"body", 310, 7)


def test_a_whole_command_reads_values_that_are_no_texts_as_java_prints_them():
    found = decode_whole_command(json_frame({"code": 310, "extFields": {"e": 2, "k": False, "x": None}}))
    assert found.fields == {"e": "2", "k": "false"}


@pytest.mark.parametrize(
    ("first", "fields"),
    [
        (310, V2_FIELDS),
        (10, {"producerGroup": "pg", "topic": "T", "defaultTopic": "T", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0"}),
        (11, {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0"}),
        (37, {"producerGroup": "pg", "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8", "msgId": "m"}),
        (0, {"msgId": "m", "queueId": "0", "queueOffset": "0"}),
        (21, {"suggestWhichBrokerId": "0", "nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("code", [10, 310, 34, 3001])
def test_the_last_code_of_a_header_with_two_says_how_its_fields_are_read(first, fields, code):
    sent = {**fields, "AccessKey": "alice", "username": "root"}
    text = f'{{"code":{first},"extFields":{json.dumps(sent)},"code":{code}}}'.encode()
    raw = RawFrame(JSON, text.replace(b'": "', b'":"'), b"")
    read, whole = decode_command(raw), decode_whole_command(raw)
    assert read.code == whole.code == code
    if code != first:
        assert read.fields == whole.fields == sent
