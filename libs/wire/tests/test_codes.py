"""Code tables match the protocol, and no number has two meanings."""

import pytest

from gantry_wire.codes import (
    BINARY_CODE_ALIASES,
    CLOSES,
    RETRYABLE,
    STORED,
    VERSION,
    RequestCode,
    ResponseCode,
    language_name,
)


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (RequestCode.SEND_MESSAGE, 10), (RequestCode.PULL_MESSAGE, 11), (RequestCode.SEND_MESSAGE_V2, 310),
        (RequestCode.SEND_BATCH_MESSAGE, 320), (RequestCode.HEART_BEAT, 34), (RequestCode.REGISTER_BROKER, 103),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, 105), (RequestCode.LITE_PULL_MESSAGE, 361),
        (ResponseCode.SYSTEM_BUSY, 2), (ResponseCode.MESSAGE_ILLEGAL, 13), (ResponseCode.PULL_OFFSET_MOVED, 21),
        (ResponseCode.INVALID_PARAMETER, 29), (ResponseCode.FLOW_CONTROL, 215), (ResponseCode.GO_AWAY, 1500),
    ],
)  # fmt: skip
def test_codes_equal_rocketmqs_numbers(code, number):
    assert code == number


def test_the_tables_contain_only_response_codes_and_do_not_overlap():
    for table in (RETRYABLE, CLOSES, STORED):
        assert all(ResponseCode(code) for code in table if code)
    assert not RETRYABLE & STORED


def test_truncated_codes_collide_with_no_other_code():
    assert not BINARY_CODE_ALIASES.keys() & {int(code) for code in RequestCode}
    assert BINARY_CODE_ALIASES[3442] == RequestCode.POP_MESSAGE
    assert BINARY_CODE_ALIASES[3543] == RequestCode.BATCH_ACK_MESSAGE


@pytest.mark.parametrize(
    ("number", "name"), [(0, "JAVA"), (1, "CPP"), (13, "NODE_JS"), (14, "OTHER"), (-1, "OTHER")]
)
def test_language_names_by_number(number, name):
    assert language_name(number) == name


def test_the_reported_version_is_5_3_3():
    assert VERSION == 479
