"""Headers and bodies of claim and settle round-trip; invalid ones are refused with a reason."""

import msgspec
import pytest

from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.errors import MalformedBody
from gantry_wire.headers.typed_header import header_from_fields
from gantry_wire.private_requests.settling import (
    SETTLE_ITEMS_MAX,
    ClaimBody,
    ClaimHeader,
    ClaimQueue,
    ClaimReplyBody,
    GrantedClaim,
    SettleBody,
    SettledStateHeader,
    SettleItem,
    SettleOutput,
    decode_json,
)


def test_our_codes_differ_from_rocketmqs():
    assert not {int(code) for code in GantryCode} & {int(code) for code in RequestCode}
    assert all(9000 <= code <= 9099 for code in GantryCode)


def test_a_body_with_any_bytes_round_trips():
    output = SettleOutput("t", -1, None, b"\x00\xff", {"a": "b"}, ("c",), "none", "commit", 3)
    body = SettleBody(
        [SettleItem(1, 2, [output, SettleOutput("u", 0)], "delivered", force=True), SettleItem(0, 0)]
    )
    assert decode_json(msgspec.json.encode(body), SettleBody) == body


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b'{"items":[{}]}', b'{"items":[{"offset":-1,"position":0}]}', b"[" * 100_000,
        b'{"items":[{"offset":0,"position":0,"outputs":[{"topic":"t","queueId":-2}]}]}',
        b'{"items":[{"offset":0,"position":0,"outputs":[{"topic":"t","queueId":0,"body":"mine"}]}]}',
        b'{"items":[{"offset":0,"position":0,"outputs":[{"topic":"t","queueId":0,"bodyBase64":"%"}]}]}',
        msgspec.json.encode(SettleBody([SettleItem(0, 0)] * (SETTLE_ITEMS_MAX + 1))),
    ],
)  # fmt: skip
def test_an_invalid_body_is_refused_with_a_reason(data):
    with pytest.raises(MalformedBody, match="SettleBody"):
        decode_json(data, SettleBody)


def test_fields_have_their_wire_names():
    header = SettledStateHeader(topic="t", queue_id=1, from_offset=7)
    assert header.to_fields() == {"topic": "t", "queueId": "1", "group": "", "from": "7"}
    assert header_from_fields(header.to_fields(), SettledStateHeader) == header
    assert header_from_fields({"owner": "a", "address": "h:1"}, ClaimHeader).ttl_ms == 3000


def test_a_claim_names_its_queues_and_its_answer_has_a_claim_for_each():
    body = b'{"queues":[{"topic":"t","queueId":3},{"topic":"u","queueId":0}]}'
    assert decode_json(body, ClaimBody) == ClaimBody([ClaimQueue("t", 3), ClaimQueue("u", 0)])
    assert msgspec.json.encode(decode_json(body, ClaimBody)) == body
    reply = b'{"claims":[{"epoch":1099511627776,"cursor":2,"maxOffset":5}],"storeTimeMs":1700000000000}'
    claims = ClaimReplyBody([GrantedClaim(1 << 40, 2, 5)], 1_700_000_000_000)
    assert decode_json(reply, ClaimReplyBody) == claims
    assert msgspec.json.encode(claims) == reply
