"""Health and reflection, with messages of the `protobuf` package."""

import asyncio

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_client import Client, framed, grpc_serving

from gantry_link.grpc.calls import Methods, joined
from gantry_link.grpc.health import Health
from gantry_link.grpc.reflection import Reflection
from gantry_link.grpc.status import GrpcError, GrpcStatus

pytestmark = pytest.mark.anyio
TEXT, BYTES, NUMBER, MESSAGE = 9, 12, 5, 11  # types of fields
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
INFO = [f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")]
SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def message_classes():
    """Return the messages of reflection.proto, as far as the tests use them."""
    file = descriptor_pb2.FileDescriptorProto(name="r.proto", package="r", syntax="proto3")
    layout = {
        "Request": [("host", 1, TEXT), ("file_by_filename", 3, TEXT), ("file_containing_symbol", 4, TEXT), ("all_extension_numbers_of_type", 6, TEXT), ("list_services", 7, TEXT)],
        "Files": [("file_descriptor_proto", 1, BYTES, True)],
        "Service": [("name", 1, TEXT)],
        "Services": [("service", 1, "Service", True)],
        "Error": [("error_code", 1, NUMBER), ("error_message", 2, TEXT)],
        "Response": [("valid_host", 1, TEXT), ("original_request", 2, "Request"), ("file_descriptor_response", 4, "Files"), ("list_services_response", 6, "Services"), ("error_response", 7, "Error")],
    }  # fmt: skip
    for name, fields in layout.items():
        one = file.message_type.add(name=name)
        for field_name, number, kind, *repeated in fields:
            field = one.field.add(name=field_name, number=number, label=3 if repeated else 1)
            if isinstance(kind, str):
                field.type, field.type_name = MESSAGE, f".r.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"r.{name}"))
        for name in ("Request", "Response")
    ]


Request, Response = message_classes()


def described():
    """Return two files, of which one imports the other."""
    base = descriptor_pb2.FileDescriptorProto(name="base.proto", package="shop")
    base.message_type.add(name="Money").field.add(name="cents", number=1, type=NUMBER, label=1)
    base.enum_type.add(name="Color").value.add(name="RED", number=0)
    top = descriptor_pb2.FileDescriptorProto(name="top.proto", package="shop.v1", dependency=["base.proto"])
    order = top.message_type.add(name="Order")
    order.nested_type.add(name="Line").enum_type.add(name="Kind").value.add(name="GOOD", number=0)
    service = top.service.add(name="Orders")
    service.method.add(name="Place", input_type=".shop.v1.Order", output_type=".shop.Money")
    bare = descriptor_pb2.FileDescriptorProto(name="bare.proto")
    bare.message_type.add(name="Bare")
    return base, top, bare


def watched(name):
    return framed(b"\x0a" + bytes((len(name),)) + name if name else b"")


async def test_health_is_checked():
    health = Health(["shop.v1.Orders"])
    async with grpc_serving(*health.methods) as (_, port), Client.connected(port) as client:
        assert (await client.call(CHECK, b"")).messages == [NOT_SERVING]
        health.set_serving(True)
        for name in (b"", b"shop.v1.Orders", b"grpc.health.v1.Health"):
            assert (await client.over(started(client, CHECK, name))).messages == [SERVING]
        assert (await client.over(started(client, CHECK, b"other"))).status == GrpcStatus.NOT_FOUND
        for malformed in (b"\x0a\x05ab", b"\xff", b"\x0a\x01\xff", b"\x0b"):
            assert (await client.call(CHECK, malformed)).status == GrpcStatus.INVALID_ARGUMENT
        assert (await client.call(CHECK, b"\x10\x96\x01\x19" + bytes(8))).messages == [SERVING]


def started(client, path, name):
    stream = client.begin(path)
    client.send(stream, watched(name), is_end=True)
    return stream


async def test_health_is_watched():
    health = Health(["shop.v1.Orders"])
    async with grpc_serving(*health.methods) as (_, port), Client.connected(port) as client:
        known, unknown = started(client, WATCH, b"shop.v1.Orders"), started(client, WATCH, b"other")
        answer = client.answers[known]
        await client.until(lambda: answer.messages and client.answers[unknown].messages)
        for number, is_serving in enumerate((True, True, False)):
            health.set_serving(is_serving)
            await client.until(lambda number=number: len(answer.messages) >= (2, 2, 3)[number])
        assert answer.messages == [NOT_SERVING, SERVING, NOT_SERVING]
        assert set(client.answers[unknown].messages) == {SERVICE_UNKNOWN}


@pytest.mark.parametrize("path", INFO)
async def test_reflection_lists_services_and_returns_files(path):
    base, top, bare = described()
    reflection = Reflection([file.SerializeToString() for file in (base, top, bare)], ["more.Service"])
    async with grpc_serving(*reflection.methods) as (_, port), Client.connected(port) as client:
        stream = client.begin(path)

        async def ask(**request):
            before = len(client.answers[stream].messages)
            request = Request(host="h", **request)
            client.send(stream, framed(request.SerializeToString()))
            await client.until(lambda: len(client.answers[stream].messages) > before)
            response = Response.FromString(client.answers[stream].messages[-1])
            assert (response.valid_host, response.original_request) == ("h", request)
            return response

        listed = await ask(list_services="*")
        names = [service.name for service in listed.list_services_response.service]
        assert names == ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection", "more.Service", "shop.v1.Orders"]  # fmt: skip
        top_symbols = ("shop.v1.Orders", "shop.v1.Orders.Place", "shop.v1.Order", "shop.v1.Order.Line", "shop.v1.Order.Line.Kind", "shop.v1.Order.Line.GOOD")  # fmt: skip
        for symbol in top_symbols:
            files = (await ask(file_containing_symbol=symbol)).file_descriptor_response.file_descriptor_proto
            assert list(files) == [top.SerializeToString(), base.SerializeToString()]
        for symbol in ("shop.Money", "shop.Money.cents", "shop.Color", "shop.RED"):
            files = (await ask(file_containing_symbol=symbol)).file_descriptor_response.file_descriptor_proto
            assert list(files) == [base.SerializeToString()]
        files = (await ask(file_by_filename="bare.proto")).file_descriptor_response.file_descriptor_proto
        assert list(files) == [bare.SerializeToString()]
        for request in ({"file_by_filename": "none.proto"}, {"file_containing_symbol": "shop.None"}):
            assert (await ask(**request)).error_response.error_code == GrpcStatus.NOT_FOUND
        other = await ask(all_extension_numbers_of_type="shop.Money")
        assert other.error_response.error_code == GrpcStatus.UNIMPLEMENTED


def test_files_that_are_malformed_are_refused():
    with pytest.raises(GrpcError):
        Reflection([b"\x0a\x7fshort"])


def test_methods_are_joined_and_none_is_there_twice():
    async def stream(_stream):
        await asyncio.sleep(0)

    one, other = Methods({"/a": lambda *_: b""}, {}), Methods({}, {"/b": stream})
    assert set(joined(one, other).unary) == {"/a"}
    assert set(joined(one, other).streaming) == {"/b"}
    with pytest.raises(ValueError, match="/a is there twice"):
        joined(one, other, Methods({}, {"/a": stream}))
