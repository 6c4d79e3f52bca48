import base64
import hashlib
import hmac

from gantry_wire.headers.nameserver import RouteHeader
from gantrymq.connection.acl import Signer, signature


def test_the_signature_matches_rfc_2202():
    said = signature(b"Jefe", b"what do ya want for nothing?")
    assert base64.b64decode(said).hex() == "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"


def test_values_are_signed_in_the_order_of_their_names_then_the_body():
    fields = Signer("RocketMQ", "12345678")({"topic": "T", "b": "2", "a": "1", "Z": "upper"}, b"body")
    # upper case sorts before lower case: AccessKey, Z, a, b, topic
    content = b"RocketMQ" + b"upper" + b"1" + b"2" + b"T" + b"body"
    expected = base64.b64encode(hmac.new(b"12345678", content, hashlib.sha1).digest()).decode()
    assert fields == {
        "topic": "T", "b": "2", "a": "1", "Z": "upper", "AccessKey": "RocketMQ", "Signature": expected,
    }  # fmt: skip


def test_a_security_token_is_signed_too_and_typed_headers_are_read():
    fields = Signer("ak", "sk", "token")(RouteHeader(topic="T"), b"")
    assert fields["SecurityToken"] == "token"
    assert fields["Signature"] == signature(b"sk", b"aktokenT")


def test_a_request_without_fields_is_signed():
    assert Signer("ak", "sk")(None, b"x")["Signature"] == signature(b"sk", b"akx")
