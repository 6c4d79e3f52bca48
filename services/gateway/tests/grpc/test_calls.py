"""Who makes a call, by its metadata."""

from __future__ import annotations

import pytest

from gantry_link.grpc.calls import CallInfo
from gateway.grpc.calls import Refused, caller_of
from gateway.grpc.proto.enums import Code


def info_of(headers: dict[bytes, bytes], peer: str = "10.0.0.7:4711") -> CallInfo:
    return CallInfo(headers, None, peer, is_secure=False, user="")


def test_the_metadata_names_the_client() -> None:
    caller = caller_of(
        info_of(
            {
                b"x-mq-client-id": b"host@1@0@abc",
                b"x-mq-language": b"PYTHON",
                b"x-mq-client-version": b"5.1.2",
                b"x-mq-namespace": b"shop",
            }
        )
    )
    assert caller[:4] == ("host@1@0@abc", "PYTHON", "5.1.2", "shop")
    assert caller.address == "10.0.0.7"


@pytest.mark.parametrize("headers", [{}, {b"x-mq-client-id": b"  "}])
def test_a_client_without_an_id_is_refused(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(Refused) as refused:
        caller_of(info_of(headers))
    assert refused.value.code == Code.CLIENT_ID_REQUIRED


def test_the_address_of_ipv6_has_no_brackets() -> None:
    assert caller_of(info_of({b"x-mq-client-id": b"a"}, "[::1]:80")).address == "::1"
