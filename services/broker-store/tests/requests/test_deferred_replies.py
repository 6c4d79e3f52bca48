"""Replies made by a coroutine: they hold a place in their class, and their wait is known, until they are sent."""

import asyncio

import pytest
from memory_store import MemoryPeer

from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.requests.request_classes import request_classes
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder

pytestmark = pytest.mark.anyio


def request() -> Command:
    return decode_command(FrameDecoder().receive(encode_request(29, 7, None))[0])


async def test_the_head_wait_is_counted_until_the_answer_left():
    queries, peer, now_ms, may_go = request_classes()["query"], MemoryPeer(), [5_000], asyncio.Event()

    async def reply() -> bytes:
        await may_go.wait()
        return encode_response(0, 7)

    later = DeferredReplies(queries, lambda: now_ms[0])
    later.answer(peer, request(), reply())
    now_ms[0] += 250
    assert (queries.in_flight, queries.head_wait_ms(now_ms[0])) == (1, 250)
    may_go.set()
    await later.close()
    assert (queries.in_flight, queries.head_wait_ms(now_ms[0])) == (0, 0)


async def test_an_error_of_a_file_is_answered_without_its_path_and_logged_with_its_peer(capsys):
    async def reply() -> bytes:
        raise FileNotFoundError(2, "No such file or directory", "/srv/gantry/store/consumequeue/orders/0")

    peer = MemoryPeer()
    later = DeferredReplies(request_classes()["query"], lambda: 0)
    later.answer(peer, request(), reply())
    await later.close()
    (answer,) = peer.answers()
    assert (answer.code, answer.remark) == (1, "FileNotFoundError: No such file or directory")
    host, port = peer.remote
    logged = "".join(capsys.readouterr())
    assert f"{host}:{port}" in logged
    assert "because the disk did" in logged
    assert "Traceback" not in logged
