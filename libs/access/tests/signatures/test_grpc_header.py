"""The gRPC header: formats of every client, RocketMQ's texts for what cannot be read, and the window of fresh dates."""

from datetime import UTC, datetime, timedelta

import pytest

from gantry_access.signatures.errors import AuthenticationRefused
from gantry_access.signatures.grpc_header import is_fresh, read_authorization
from gantry_access.signatures.signing_key import SigningKey, is_signature

DATE = "20231227T194619Z"
HEX = "b78a646b41b898e9a4b565927a888b247ea32e86"
KEY = SigningKey("12345678")
NOW = datetime(2023, 12, 27, 19, 46, 19, tzinfo=UTC).timestamp()


def header(credential="rocketmq", signature=HEX):
    return f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, Signature={signature}"


@pytest.mark.parametrize("credential", ["rocketmq", "rocketmq//Rocketmq", "rocketmq/cn-north/RocketMQ"])
@pytest.mark.parametrize("signature", [HEX, HEX.upper()])
def test_the_headers_of_all_clients_are_accepted(credential, signature):
    claim = read_authorization(header(credential, signature), DATE)
    assert claim.user == "rocketmq"
    assert is_signature(claim.signature, [KEY], claim.signed)


def test_any_scheme_and_any_order_are_accepted():
    claim = read_authorization(f"X Signature={HEX},Credential=u,", DATE)
    assert (claim.user, claim.signature.hex()) == ("u", HEX)


def test_another_date_or_another_secret_is_refused():
    claim = read_authorization(header(), "20231227T194620Z")
    assert not is_signature(claim.signature, [KEY], claim.signed)
    claim = read_authorization(header(), DATE)
    assert not is_signature(claim.signature, [SigningKey("12345679")], claim.signed)


def test_a_header_without_a_signature_is_never_accepted():
    claim = read_authorization("MQv2-HMAC-SHA1 Credential=rocketmq", DATE)
    assert not is_signature(claim.signature, [KEY], claim.signed)


@pytest.mark.parametrize(
    ("authorization", "date", "remark"),
    [
        (None, DATE, "username cannot be null."),
        ("", DATE, "username cannot be null."),
        (header(""), DATE, "username cannot be null."),
        (header("/region"), DATE, "username cannot be null."),
        ("MQv2 Credential=,", DATE, "username cannot be null."),
        ("MQv2 ,", DATE, "username cannot be null."),
        (header(), None, "datetime is null."),
        (header(), "", "datetime is null."),
        ("MQv2-HMAC-SHA1", DATE, "authentication header is incorrect."),
        ("MQv2 ", DATE, "authentication keyValues length is incorrect, actual length=1."),
        ("MQv2 Credential", DATE, "authentication keyValues length is incorrect, actual length=1."),
        (
            "MQv2 Credential=u,,Signature=00",
            DATE,
            "authentication keyValues length is incorrect, actual length=1.",
        ),
        (header(signature="xyz"), DATE, "create authentication context error."),
        (header(signature="b78"), DATE, "create authentication context error."),
        (header(signature=HEX[:20] + " " + HEX[20:]), DATE, "create authentication context error."),
        (header(signature="ää"), DATE, "create authentication context error."),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_text_of_rocketmq(authorization, date, remark):
    with pytest.raises(AuthenticationRefused) as refused:
        read_authorization(authorization, date)
    assert refused.value.remark == remark


def text(hours=0.0, seconds=0.0):
    return (datetime.fromtimestamp(NOW, UTC) + timedelta(hours=hours, seconds=seconds)).strftime(
        "%Y%m%dT%H%M%SZ"
    )


@pytest.mark.parametrize("hours", [-12, -9.5, 0, 5.75, 8, 14])
@pytest.mark.parametrize("seconds", [-300, 0, 300])
def test_the_local_time_of_every_zone_is_fresh(hours, seconds):
    assert is_fresh(text(hours, seconds), NOW)


def test_dates_beyond_the_zones_are_not_fresh():
    assert not is_fresh(text(-12, -301), NOW)
    assert not is_fresh(text(14, 301), NOW)
    assert not is_fresh(text(24 * 365), NOW)
    assert is_fresh(text(14, 301), NOW, error_seconds=301)


def test_a_date_with_its_offset_is_compared_as_an_instant():
    assert is_fresh("2023-12-28T03:46:19.123+08:00", NOW)
    assert is_fresh("2023-12-27T14:46:19-05:00", NOW)
    assert not is_fresh("2023-12-27T19:46:19+08:00", NOW)
    assert is_fresh("2023-12-28T03:46:19Z", NOW)


@pytest.mark.parametrize(
    "date",
    [
        "",
        "x",
        "20231327T194619Z",
        "20231227T194619",
        "20231227T194619Z ",
        "2023-12-27 19:46:19Z",
        "0001-01-01T00:00:00+14:00",
        "\uff120231227T194619Z",
    ],
)
def test_an_unreadable_date_is_not_fresh(date):
    assert not is_fresh(date, NOW)
