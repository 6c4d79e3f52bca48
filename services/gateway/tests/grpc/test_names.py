"""Namespaces of gRPC clients become parts of names."""

from __future__ import annotations

import pytest

from gateway.grpc.names import full_name
from gateway.grpc.proto.common import Resource


@pytest.mark.parametrize(
    ("own", "name", "of_call", "full"),
    [
        ("", "orders", "", "orders"),
        ("", "orders", "shop", "shop%orders"),
        ("mill", "orders", "shop", "mill%orders"),
        ("", "shop%orders", "shop", "shop%orders"),
        ("", "%RETRY%g", "shop", "%RETRY%shop%g"),
        ("", "%DLQ%shop%g", "shop", "%DLQ%shop%g"),
        ("", "", "shop", ""),
    ],
)
def test_a_name_has_its_namespace_before_it_once(own: str, name: str, of_call: str, full: str) -> None:
    assert full_name(Resource(resource_namespace=own, name=name), of_call) == full
