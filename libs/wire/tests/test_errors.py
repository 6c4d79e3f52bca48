"""Every error states the code to answer, whether to retry and whether to close."""

import pytest

from gantry_wire import errors
from gantry_wire.codes import ResponseCode
from gantry_wire.frames.frame_stream import MalformedFrame

KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.WireError)
] + [MalformedFrame]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_states_retry_and_close_and_what_happened(kind):
    assert isinstance(kind.code, ResponseCode)
    assert (type(kind.retry), type(kind.close)) == (bool, bool)
    assert kind.__doc__


def test_only_errors_of_a_broken_stream_close_the_connection():
    assert {kind.__name__ for kind in KINDS if kind.close} == {"MalformedFrame", "MalformedHeader"}


@pytest.mark.parametrize(
    ("code", "retry"), [(ResponseCode.SYSTEM_BUSY, True), (ResponseCode.MESSAGE_ILLEGAL, False)]
)
def test_a_refusal_contains_its_code_remark_and_fields(code, retry):
    refused = errors.RefusedRequest(code, "words", {"gantryCode": "DISK_FULL"})
    assert (refused.code, refused.remark, str(refused)) == (code, "words", "words")
    assert (refused.retry, refused.close, refused.fields) == (retry, False, {"gantryCode": "DISK_FULL"})
