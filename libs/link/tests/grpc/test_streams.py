"""Calls with more than one message in a direction."""

import asyncio

import pytest
from grpc_client import Client, Noted, framed, grpc_serving
from scripted_link import eventually

from gantry_link.grpc.status import GrpcError, GrpcStatus

pytestmark = pytest.mark.anyio
CHAT = "/test.Test/Chat"


async def chat(stream):
    while (message := await stream.receive()) is not None:
        await stream.send(message)


async def test_messages_move_in_both_directions():
    async with grpc_serving(streaming={CHAT: chat}) as (_, port), Client.connected(port) as client:
        stream = client.begin(CHAT)
        answer = client.answers[stream]
        for number in range(3):
            client.send(stream, framed(b"%d" % number))
            await client.until(lambda number=number: len(answer.messages) > number)
        client.send(stream, framed(b"last"), is_end=True)
        assert (await client.over(stream)).messages == [b"0", b"1", b"2", b"last"]
        assert answer.trailers == {"grpc-status": "0"}


async def test_messages_that_are_cut_anywhere_arrive():
    async with grpc_serving(streaming={CHAT: chat}) as (_, port), Client.connected(port) as client:
        stream = client.begin(CHAT)
        messages = [b"a" * 7, b"", b"b" * 300]
        content = b"".join(map(framed, messages))
        for at in range(0, len(content), 3):
            client.send(stream, content[at : at + 3])
        client.h2.end_stream(stream)
        client.flush()
        assert (await client.over(stream)).messages == messages


async def test_a_stream_without_messages_is_ok():
    async with grpc_serving(streaming={CHAT: chat}) as (_, port), Client.connected(port) as client:
        stream = client.begin(CHAT, is_end=True)
        answer = await client.over(stream)
        assert (answer.status, answer.messages) == (0, [])
        assert answer.headers["content-type"] == "application/grpc"


async def test_errors_behind_messages_are_trailers():
    async def fail(stream):
        await stream.send(b"one")
        raise GrpcError(GrpcStatus.ABORTED, "enough")

    async def fail_at_once(stream):
        raise GrpcError(GrpcStatus.ABORTED, "at once")

    def no_coroutine(stream):
        raise GrpcError(GrpcStatus.ABORTED, "no coroutine")

    methods = {"/t/A": fail, "/t/B": fail_at_once, "/t/C": no_coroutine}
    async with grpc_serving(streaming=methods) as (_, port), Client.connected(port) as client:
        answer = await client.over(client.begin("/t/A", is_end=True))
        assert (answer.messages, answer.status, answer.text) == ([b"one"], GrpcStatus.ABORTED, "enough")
        assert "grpc-status" in answer.trailers
        for path in ("/t/B", "/t/C"):
            answer = await client.over(client.begin(path, is_end=True))
            assert answer.status == GrpcStatus.ABORTED
            assert "grpc-status" in answer.headers


async def test_a_slow_client_makes_send_wait():
    sent = []

    async def many(stream):
        await stream.receive()
        for number in range(100):
            await stream.send(bytes(10_000))
            sent.append(number)

    budget = Noted()
    async with (
        grpc_serving(streaming={CHAT: many}, budget=budget) as (server, port),
        Client.connected(port) as client,
    ):
        client.acknowledges = False
        stream = client.begin(CHAT)
        client.send(stream, framed(b""), is_end=True)
        answer = client.answers[stream]
        await client.until(lambda: len(answer.content) == 65_535)
        assert len(sent) == 6  # the seventh has not left whole
        connection = next(iter(server._port.connections))
        assert connection._h2.held_bytes == 10_005
        client.acknowledges = True
        client.h2.acknowledge_received_data(65_535, stream)
        client.flush()
        assert (await client.over(stream)).messages == [bytes(10_000)] * 100
        assert connection._h2.held_bytes == 0
        assert not any(budget.held.values())


async def test_a_client_that_does_not_read_its_socket_is_not_read_and_not_answered_further():
    sent = []

    async def many(stream):
        for number in range(100):
            await stream.send(bytes(1_000_000))
            sent.append(number)

    budget = Noted()
    async with (
        grpc_serving(streaming={CHAT: many}, budget=budget) as (server, port),
        Client.connected(port, window=2**31 - 1) as client,
    ):
        client.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        client.flush()
        connection = next(iter(server._port.connections), None)
        client.transport.pause_reading()
        stream = client.begin(CHAT, is_end=True)
        await eventually(lambda: any(one.is_paused for one in server._port.connections))
        connection = next(iter(server._port.connections))
        await eventually(lambda: budget.most["answers it does not read"] > 1_000_000)
        assert len(sent) < 20
        assert connection._unsent_bytes < 5_000_000
        client.transport.resume_reading()
        assert len((await client.over(stream)).content) == 100 * 1_000_005
        await eventually(lambda: not any(budget.held.values()))


async def test_a_slow_service_makes_the_client_wait():
    begin = asyncio.Event()
    received = []

    async def late(stream):
        await begin.wait()
        while (message := await stream.receive()) is not None:
            received.append(message)

    budget = Noted()
    async with (
        grpc_serving(streaming={CHAT: late}, budget=budget) as (_, port),
        Client.connected(port) as client,
    ):
        stream = client.begin(CHAT)
        await client.until(lambda: client.h2.remote_settings.initial_window_size == 1 << 20)
        message = framed(bytes(1000))
        count = 0
        while client.h2.local_flow_control_window(stream) >= len(message):
            client.send(stream, message)
            count += 1
        await eventually(lambda: sum(budget.held.values()) == count * len(message))
        assert client.h2.local_flow_control_window(stream) < len(message)
        begin.set()
        await client.until(lambda: client.h2.local_flow_control_window(stream) > 1 << 19)
        client.h2.end_stream(stream)
        client.flush()
        await client.over(stream)
        assert len(received) == count
        assert not any(budget.held.values())


async def test_a_message_larger_than_the_windows_arrives():
    received = []

    async def take(stream):
        while (message := await stream.receive()) is not None:
            received.append(message)

    async with grpc_serving(streaming={CHAT: take}) as (_, port), Client.connected(port) as client:
        stream = client.begin(CHAT)
        large = bytes(range(256)) * 12_000
        await client.send_whole(stream, framed(b"first") + framed(large) + framed(b"last"))
        assert (await client.over(stream)).status == 0
        assert received == [b"first", large, b"last"]


async def test_a_stream_is_cancelled_with_its_deadline_its_client_and_its_connection():
    ends = asyncio.Queue()

    async def wait(stream):
        try:
            await stream.send(b"began")
            await stream.receive()
        except asyncio.CancelledError:
            ends.put_nowait("cancelled")
            raise

    async with grpc_serving(streaming={CHAT: wait}) as (server, port):
        async with Client.connected(port) as client:
            late = client.begin(CHAT, more=(("grpc-timeout", "40m"),))
            assert (await client.over(late)).status == GrpcStatus.DEADLINE_EXCEEDED
            await eventually(lambda: not server.deadlines._steps)
            while not ends.empty():  # on a busy machine the deadline may pass before it began
                ends.get_nowait()
            stream = client.begin(CHAT)
            await client.until(lambda: client.answers[stream].messages)
            client.cancel(stream)
            assert await ends.get() == "cancelled"
            stream = client.begin(CHAT)
            await client.until(lambda: client.answers[stream].messages)
        assert await ends.get() == "cancelled"


async def test_a_deadline_passes_while_the_windows_are_closed():
    async def many(stream):
        while True:
            await stream.send(bytes(50_000))

    async with grpc_serving(streaming={CHAT: many}) as (server, port), Client.connected(port) as client:
        client.acknowledges = False
        answer = await client.over(client.begin(CHAT, more=(("grpc-timeout", "60m"),)))
        assert answer.reset == 8
        connection = next(iter(server._port.connections))
        assert (connection._h2.open_calls, connection._h2.held_bytes) == (0, 0)


async def test_sending_after_the_end_of_a_call_is_an_error():
    streams = asyncio.Queue()

    async def keep(stream):
        streams.put_nowait(stream)
        await stream.receive()

    async with grpc_serving(streaming={CHAT: keep}) as (_, port), Client.connected(port) as client:
        number = client.begin(CHAT)
        stream = await streams.get()
        await asyncio.gather(stream.send(b"from"), stream.send(b"elsewhere"))
        await client.until(lambda: len(client.answers[number].messages) == 2)
        assert client.answers[number].messages == [b"from", b"elsewhere"]
        client.send(number, framed(b""), is_end=True)
        await client.over(number)
        with pytest.raises(GrpcError) as found:
            await stream.send(b"too late")
        assert found.value.status == GrpcStatus.CANCELLED


async def test_a_service_can_cancel_its_own_sender_before_it_fails():
    ends = asyncio.Queue()

    async def write(stream):
        while True:
            await stream.send(bytes(50_000))

    async def with_a_writer(stream):
        writing = asyncio.ensure_future(write(stream))
        try:
            await stream.receive()
        finally:
            writing.cancel()
            ends.put_nowait(writing)

    async with grpc_serving(streaming={CHAT: with_a_writer}) as (_, port), Client.connected(port) as client:
        client.acknowledges = False
        stream = client.begin(CHAT)
        await client.until(lambda: len(client.answers[stream].content) == 65_535)
        client.cancel(stream)
        writing = await ends.get()
        with pytest.raises(asyncio.CancelledError):
            await writing


async def test_a_sender_that_waits_for_windows_is_woken_at_the_end():
    async def many(stream):
        sends = [asyncio.ensure_future(stream.send(bytes(50_000))) for _ in range(3)]
        await stream.receive()
        ends.put_nowait(sends)

    ends = asyncio.Queue()
    async with grpc_serving(streaming={CHAT: many}) as (_, port), Client.connected(port) as client:
        client.acknowledges = False
        stream = client.begin(CHAT)
        await client.until(lambda: len(client.answers[stream].content) == 65_535)
        client.send(stream, framed(b""), is_end=True)
        found = await asyncio.gather(*await ends.get(), return_exceptions=True)
        assert found[0] is None
        assert [type(one) for one in found[1:]] == [GrpcError] * 2


async def test_a_thousand_streams_keep_apart():
    async with grpc_serving(streaming={CHAT: chat}) as (server, port), Client.connected(port) as client:
        streams = [client.begin(CHAT) for _ in range(1000)]
        for stream in streams:
            client.send(stream, framed(b"%d" % stream))
        await client.until(lambda: all(client.answers[stream].messages for stream in streams))
        connection = next(iter(server._port.connections))
        assert connection._h2.open_calls == 1000
        for stream in streams:
            client.h2.end_stream(stream)
        client.flush()
        await client.until(lambda: all(client.answers[stream].is_over for stream in streams))
        assert all(client.answers[one].messages == [b"%d" % one] for one in streams)
        assert connection._h2.open_calls == 0
