"""Every request is verified and decided; what cannot be decided is refused."""

import asyncio
import json
import os

import msgspec
import pytest
from guarded import KEYS, SECRET, Guarded, connected, serving, signed, table, user
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.model.users import UserStatus, UserType
from gantry_access.rights.request_table import REQUESTS
from gantry_guard.door import NOT_READ_YET
from gantry_guard.failures import FREE_FAILURES
from gantry_guard.introduction import Introducer, endpoint_text
from gantry_link.connections.connection import connect
from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import FLAG_RESPONSE, decode_command, decode_whole_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, FRAME_HEAD, JSON, FrameDecoder, RawFrame
from gantry_wire.headers.messages import SendHeader, SendHeaderV2
from gantry_wire.headers.typed_header import Header

pytestmark = pytest.mark.anyio
MAY_SEND = "Allow Pub Topic:orders"
SEND = {"a": "pg", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}  # fmt: skip
WRONG = "check signature failed."


def framed(header):
    """A frame with this JSON header and no body."""
    data = header.encode()
    return FRAME_HEAD.pack(4 + len(data), len(data)) + data


async def ask(guarded, code, fields, body=b""):
    """Send one request on a connection of its own; return the answer's code and remark."""
    async with connected(guarded.receive) as connection:
        answer = await connection.request(code, fields, body)
    return answer.code, answer.remark


async def test_a_signed_request_that_policies_allow_is_handled():
    guarded = Guarded(table(MAY_SEND))
    assert await ask(guarded, 310, signed(SEND, b"hello"), b"hello") == (0, None)
    assert guarded.counts() == {"allowed": 1}


@pytest.mark.parametrize("serialize_type", [JSON, BINARY])
async def test_fields_that_the_usual_header_does_not_know_are_signed_too(serialize_type):
    guarded = Guarded(table(MAY_SEND))
    fields = {name: value for name, value in SEND.items() if value} | {"ReqT": "0", "zz": "own"}
    good = signed(fields)
    for sent, code in ((good, 0), (good | {"zz": "other"}, 16)):
        async with connected(guarded.receive) as connection:
            opaque = connection.next_opaque()
            answer = asyncio.get_running_loop().create_future()
            connection.ask(
                opaque, encode_request(310, opaque, sent, serialize_type=serialize_type), answer, 3
            )
            assert (await answer).code == code


@pytest.mark.parametrize(
    ("fields", "body", "remark"),
    [
        (SEND, b"", "username cannot be null."),
        ({**SEND, "AccessKey": " "}, b"", "username cannot be null."),
        ({**SEND, "AccessKey": "alice"}, b"", WRONG),
        (signed(SEND, name="mallory"), b"", WRONG),
        (signed(SEND, secret="another"), b"", WRONG),
        (signed(SEND, b"hello"), b"jello", WRONG),
        ({**signed(SEND), "b": "secrets"}, b"", WRONG),
        ({name: text for name, text in signed(SEND).items() if name != "Signature"}, b"", WRONG),
        (
            signed({**SEND, "b": "secrets"}),
            b"",
            "User:alice has no permission to access Topic:secrets from 127.0.0.1, no matched policies.",
        ),
        (signed({**SEND, "b": ""}), b"", "topic is null."),
        (
            signed({**SEND, "b": "GANTRY_SYS_ACCESS"}),
            b"",
            "User:alice has no permission: only services of Gantry send this request.",
        ),
    ],
)
async def test_a_request_without_proof_or_right_is_refused_with_rocketmqs_text(fields, body, remark):
    guarded = Guarded(table(MAY_SEND))
    assert await ask(guarded, 310, fields, body) == (16, remark)
    assert guarded.handled == []


async def test_a_header_with_two_codes_is_handled_with_the_fields_that_were_decided():
    guarded = Guarded(table("Allow Pub Topic:mine"))
    old = {"producerGroup": "pg", "topic": "mine", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0"}  # fmt: skip
    fields = signed({**SEND, "b": "secrets", **old})
    header = f'{{"code":310,"extFields":{json.dumps(fields)},"flag":0,"opaque":1,"code":10}}'
    async with connected(guarded.receive) as connection:
        answer = asyncio.get_running_loop().create_future()
        connection.ask(1, framed(header.replace('": "', '":"')), answer, 3)
        assert (await answer).code == 0
    (command,) = guarded.handled
    assert (command.code, command.read(SendHeader).topic) == (10, "mine")


async def test_a_right_on_one_topic_cancels_no_timed_message_of_another_one():
    guarded = Guarded(table(MAY_SEND))
    timed = "TIMER_DELIVER_MS\x019\x02TIMER_DEL_UNIQKEY\x01{}+K\x02"
    for topic, code in (("orders", 0), ("secrets", 16), ("orders", 0)):
        assert (await ask(guarded, 310, signed({**SEND, "i": timed.format(topic)})))[0] == code
    assert len(guarded.handled) == 2


async def test_what_concerns_a_topic_goes_to_a_connection_whose_user_may_send_to_it():
    access = table(MAY_SEND)
    guarded = Guarded(access)
    peers = []

    def receive(peer, raw):
        peers.append(peer)
        guarded.receive(peer, raw)

    async with connected(receive) as connection:
        await connection.request(310, SEND)
        assert not guarded.door.may_send(peers[0], "orders")  # nobody signed
        await connection.request(310, signed(SEND))
        assert guarded.door.may_send(peers[0], "orders")
        for other in ("secrets", "GANTRY_SYS_ACCESS", "", "a*b"):
            assert not guarded.door.may_send(peers[0], other)
        access.take(access.deletions("alice", 2))
        assert not guarded.door.may_send(peers[0], "orders")
        await Introducer(KEYS.inner, "gateway", os.urandom)(connection)
        assert guarded.door.may_send(peers[0], "GANTRY_SYS_ACCESS")


async def test_a_good_signature_opens_nothing_for_the_next_request():
    guarded = Guarded(table(MAY_SEND))
    async with connected(guarded.receive) as connection:
        assert (await connection.request(310, signed(SEND))).code == 0
        assert (await connection.request(310, {**signed(SEND), "e": "1"})).code == 16
        assert (await connection.request(310, SEND)).code == 16
        assert (await connection.request(310, signed(SEND))).code == 0
    assert len(guarded.handled) == 2


@pytest.mark.parametrize("code", [0, 4, 999, 3011, 9049, 200199])
@pytest.mark.parametrize("kind", [UserType.NORMAL, UserType.SUPER])
async def test_a_code_without_a_row_is_refused_for_everybody(code, kind):
    assert code not in REQUESTS
    guarded = Guarded(table("Allow All *", users=[user(type=kind)]))
    assert await ask(guarded, code, signed({"topic": "orders"})) == (16, "authorization context is empty.")
    assert guarded.handled == []


@pytest.mark.parametrize("code", sorted(set(GantryCode) - {GantryCode.INTRODUCE, GantryCode.PROVE}))
async def test_only_services_of_the_cluster_send_their_codes(code):
    guarded = Guarded(table(users=[user(type=UserType.SUPER)]))
    answer, remark = await ask(guarded, code, signed({}))
    assert (answer, guarded.handled) == (16, [])
    assert "only services of Gantry" in remark


async def test_no_header_or_property_makes_a_client_an_inner_one():
    guarded = Guarded(table(MAY_SEND))
    forged = {
        "inner": "gateway", "access source": "x", "x-mq-internal": "true", "authorization": "inner", "rpc_internal": "1", "role": "store",
        "xRemoteAddr": "127.0.0.1", "channelId": "1",
    }  # fmt: skip
    for code in (GantryCode.SETTLE, RequestCode.UPDATE_BROKER_CONFIG, RequestCode.DELETE_TOPIC_IN_BROKER):
        assert (await ask(guarded, code, forged))[0] == 16
        assert (await ask(guarded, code, signed(forged | {"topic": "orders"})))[0] == 16
    assert guarded.handled == []


@pytest.mark.parametrize(
    ("parts", "remark"),
    [
        ({"status": UserStatus.DISABLE}, "User:alice is disabled."),
        ({"expires_ms": 5}, "User:alice has expired."),
    ],
)
async def test_a_user_that_may_do_nothing_is_named_only_after_its_signature(parts, remark):
    guarded = Guarded(table(MAY_SEND, users=[user(**parts)]))
    assert await ask(guarded, 310, signed(SEND)) == (16, remark)
    assert await ask(guarded, 310, signed(SEND, secret="guessed")) == (16, WRONG)


async def test_a_change_counts_for_the_next_request_of_an_open_connection():
    access = table(MAY_SEND)
    guarded = Guarded(access)
    async with connected(guarded.receive) as connection:
        assert (await connection.request(310, signed(SEND))).code == 0
        access.take(access.deletions("alice", 2))
        assert (await connection.request(310, signed(SEND))).remark == WRONG


async def test_until_users_are_read_they_are_asked_to_try_again():
    guarded = Guarded(table(MAY_SEND, is_complete=False))
    assert await ask(guarded, 310, signed(SEND)) == (14, NOT_READ_YET)
    assert await ask(guarded, 310, SEND) == (16, "username cannot be null.")


async def test_an_introduced_service_passes_without_a_user_and_a_request_with_a_user_is_decided():
    guarded = Guarded(table(MAY_SEND, is_complete=True))
    async with connected(guarded.receive) as connection:
        await Introducer(KEYS.inner, "gateway", os.urandom)(connection)
        assert (await connection.request(GantryCode.SETTLE, {})).code == 0
        assert (await connection.request(999, {})).code == 0  # the handler answers unknown codes
        assert (await connection.request(310, signed({**SEND, "b": "secrets"}))).code == 16
        assert (await connection.request(310, {**SEND, "AccessKey": "alice"})).code == 16
    async with connected(guarded.receive) as connection:  # another connection is nobody's
        assert (await connection.request(GantryCode.SETTLE, {})).code == 16
    assert [command.code for command in guarded.handled] == [9003, 999]


@pytest.mark.parametrize("serialize_type", [JSON, BINARY])
async def test_a_service_may_name_topics_and_send_properties_that_hold_the_name_of_the_field(serialize_type):
    guarded = Guarded(table(MAY_SEND))
    fields = {**SEND, "b": "AccessKeys", "i": "AccessKey\x01x\x02"}
    async with connected(guarded.receive) as connection:
        await Introducer(KEYS.inner, "gateway", os.urandom)(connection)
        opaque = connection.next_opaque()
        answer = asyncio.get_running_loop().create_future()
        connection.ask(opaque, encode_request(310, opaque, fields, serialize_type=serialize_type), answer, 3)
        assert (await answer).code == 0
        assert (await connection.request(310, {**fields, "AccessKey": ""})).code == 16


async def test_a_peer_that_only_began_an_introduction_gets_nothing_else():
    guarded = Guarded(table(MAY_SEND))
    async with connected(guarded.receive) as connection:
        begun = {"role": "store", "nonce": "A" * 43 + "=", "address": endpoint_text(connection.remote)}
        answer = await connection.request(GantryCode.INTRODUCE, begun)
        assert answer.code == 0
        assert (await connection.request(GantryCode.SETTLE, {})).code == 16
    assert guarded.handled == []


async def test_a_refused_one_way_request_is_dropped_and_counted():
    guarded = Guarded(table(MAY_SEND))
    async with connected(guarded.receive) as connection:
        connection.oneway(310, SEND)
        connection.oneway(310, signed(SEND))
        assert (await connection.request(310, signed(SEND))).code == 0
    assert len(guarded.handled) == 2
    assert guarded.counts() == {"allowed": 2, "no_user": 1}


async def test_an_answer_without_a_call_is_dropped_unread():
    guarded = Guarded(table(MAY_SEND))
    async with connected(guarded.receive) as connection:
        header = msgspec.json.encode(
            {"code": 310, "flag": FLAG_RESPONSE, "opaque": 5, "extFields": signed(SEND)}
        )
        connection.send(FRAME_HEAD.pack(4 + len(header), len(header)) + header)
        assert (await connection.request(310, signed(SEND))).code == 0
    assert [command.is_response for command in guarded.handled] == [False]


@pytest.mark.parametrize("topic", ["orders", "secrets", None])
async def test_the_topic_of_a_record_decides_for_users_of_policies(topic):
    asked = []

    def topic_of_record(code, request):
        asked.append((code, request.fields["msgId"]))
        return topic

    guarded = Guarded(table("Allow Get Topic:orders"), topic_of_record=topic_of_record)
    fields = signed({"topic": "orders", "msgId": "AB"})
    code, _ = await ask(guarded, RequestCode.VIEW_MESSAGE_BY_ID, fields)
    assert code == (0 if topic == "orders" else 16)
    assert asked == [(33, "AB")]


async def test_a_super_user_needs_no_look_at_the_record():
    guarded = Guarded(table(users=[user(type=UserType.SUPER)]), topic_of_record=None)
    assert (await ask(guarded, RequestCode.VIEW_MESSAGE_BY_ID, signed({"msgId": "AB"})))[0] == 0


async def test_names_of_a_body_are_decided_and_an_unreadable_body_is_refused():
    guarded = Guarded(table("Allow Sub Topic:orders", "Allow Sub Group:g"))

    def locks(*topics):
        queues = [{"topic": topic, "brokerName": "b", "queueId": 0} for topic in topics]
        return msgspec.json.encode({"consumerGroup": "g", "clientId": "c", "mqSet": queues})

    for body, code in ((locks("orders"), 0), (locks("orders", "secrets"), 16), (b"{", 1)):
        assert (await ask(guarded, RequestCode.LOCK_BATCH_MQ, signed({}, body), body))[0] == code
    assert len(guarded.handled) == 1


async def test_many_wrong_secrets_pause_their_user_at_their_address_and_nobody_else():
    access = table(MAY_SEND, users=[user(), user("bob", "the secret of bob", type=UserType.SUPER)])
    guarded = Guarded(access)
    async with serving(guarded.receive) as address:
        running, guessing, third = [await connect(address) for _ in range(3)]
        assert (await running.request(310, signed(SEND))).code == 0
        guesses = [
            guessing.request(310, signed(SEND, secret=f"guess {n}"), timeout=60) for n in range(10_000)
        ]
        assert (await third.request(310, signed(SEND, name="bob", secret="the secret of bob"))).code == 0
        assert {(answer.code, answer.remark) for answer in await asyncio.gather(*guesses)} == {(16, WRONG)}
        right = await guessing.request(310, signed(SEND))
        assert (right.code, right.remark) == (16, WRONG)  # not verified
        assert (await running.request(310, signed(SEND))).code == 0  # its last request was the user's
        assert (await third.request(310, signed(SEND, name="bob", secret="the secret of bob"))).code == 0
        guarded.clock.now += 3600
        assert (await guessing.request(310, signed(SEND))).code == 0
        for connection in (running, guessing, third):
            connection.close()
    assert guarded.counts()["wrong_signature"] == FREE_FAILURES + 1
    assert guarded.counts()["too_many_failures"] == 10_000 - FREE_FAILURES


NAMES = st.sampled_from(
    ["a", "b", "topic", "group", "consumerGroup", "i", "e", "queueId", "AccessKey", "Signature", "zz"]
)
VALUES = st.one_of(
    st.text(max_size=4),
    st.integers(-9, 9),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
)
CODES = st.sampled_from([10, 11, 37, 310, 320, 361, 9003, 34, 105])


@st.composite
def json_headers(draw):
    """A JSON header, perhaps with names that occur twice."""
    pairs = draw(st.lists(st.tuples(NAMES, VALUES), max_size=8))
    ext = ",".join(
        f"{msgspec.json.encode(name).decode()}:{msgspec.json.encode(value).decode()}" for name, value in pairs
    )
    codes = draw(st.lists(CODES, min_size=1, max_size=2))
    parts = [f'"code":{codes[0]}', f'"extFields":{{{ext}}}', '"flag":0', '"language":"JAVA"', '"opaque":1']
    parts += [f'"code":{code}' for code in codes[1:]]
    if draw(st.booleans()):
        parts.append('"extFields":{"b":"other","topic":"other"}')
    return RawFrame(JSON, f"{{{','.join(parts)}}}".encode(), b"")


@given(json_headers())
def test_the_door_reads_the_same_names_as_the_handler(raw):
    """Otherwise a request would be decided about one topic and executed on another."""
    try:
        handled = decode_command(raw)
    except WireError:
        with pytest.raises(WireError):
            decode_whole_command(raw)
        return
    decided = decode_whole_command(raw)
    assert (decided.code, decided.flag, decided.body) == (handled.code, handled.flag, handled.body)
    fields = decided.ext
    if not isinstance(handled.fields, Header):
        assert fields == handled.ext
        return
    kind = type(handled.fields)
    assert decided.read(kind).to_fields() == handled.fields.to_fields()


async def test_a_replaced_signature_field_of_another_case_is_no_signature():
    guarded = Guarded(table(MAY_SEND))
    fields = signed(SEND)
    fields["signature"] = fields.pop("Signature")
    assert await ask(guarded, 310, fields) == (16, WRONG)


def test_a_send_of_the_usual_type_is_decided_by_its_topic():
    raw = RawFrame(JSON, encode_request(310, 1, SEND)[8:], b"")
    assert decode_command(raw).read(SendHeaderV2).topic == decode_whole_command(raw).ext["b"]


async def test_secrets_are_in_no_answer_and_no_repr():
    guarded = Guarded(table(MAY_SEND))
    assert SECRET not in repr(guarded.door.__dict__)
    _, remark = await ask(guarded, 310, signed(SEND, secret="guess"))
    assert SECRET not in remark


async def test_long_names_are_decided_and_not_remembered():
    guarded = Guarded(table("Allow Get Group:g", "Allow Get Topic:*"))
    for count in (3, 2000):
        fields = signed(
            {"consumerGroup": "g", "topicList": ";".join(f"t{number}" for number in range(count))}
        )
        assert (await ask(guarded, RequestCode.GET_CONSUME_STATS, fields))[0] == 0
    assert len(guarded.door._requirements._cache) == 1


class Stranger:
    """A peer without a socket."""

    def __init__(self):
        self.attributes, self.sent = {}, []
        self.remote, self.local = ("10.0.0.5", 4711), ("10.0.0.1", 10911)

    def send(self, frame):
        self.sent.append(frame)


def admitted(guarded, raw):
    """What the door answers: a bool, or the code of a refusal."""
    try:
        return guarded.door.admit(Stranger(), raw)
    except WireError as error:
        return int(error.code)


@given(st.sampled_from([JSON, BINARY]), st.binary(max_size=80), st.binary(max_size=20))
def test_no_bytes_get_past_the_door(kind, header, body):
    assert admitted(Guarded(table(MAY_SEND)), RawFrame(kind, header, body)) is not True


TEXT_FIELDS = st.dictionaries(
    st.sampled_from(
        [
            "topic",
            "b",
            "a",
            "group",
            "consumerGroup",
            "topicList",
            "filterGroups",
            "clusterName",
            "msgId",
            "offset",
            "gantryBrowse",
        ]
    ),
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(["orders", "%RETRY%g", "%RETRY%", "g", "true", "*", "a*", "\x00"]),
    ),
    max_size=5,
)
BODIES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"", b"{}", b"[]", b"null", b'{"consumerDataSet":[{}]}', b'{"mqSet":[null]}', b"[" * 5000, b'{"topic":5}']),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["topic", "consumerGroup", "groupName", "mqSet", "consumerDataSet", "subscriptionDataSet", "topicConfigList", "groupConfigList", "subscriptionData"]), inner, max_size=3),
        max_leaves=6,
    ).map(msgspec.json.encode),
)  # fmt: skip


@given(st.sampled_from(sorted(REQUESTS)), TEXT_FIELDS, BODIES, st.sampled_from([JSON, BINARY]))
def test_a_signed_request_of_any_content_is_decided_or_refused(code, fields, body, kind):
    """Nothing else may happen: what fails in another way is answered as a bug of ours."""
    raw = FrameDecoder().receive(
        encode_request(
            code,
            1,
            signed({name: text for name, text in fields.items() if text}, body),
            body,
            serialize_type=kind,
        )
    )[0]
    for access in (table("Allow All *"), table()):
        assert admitted(Guarded(access), raw) in (True, False, 1, 16)
