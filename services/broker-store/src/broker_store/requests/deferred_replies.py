"""Replies that need the disk or a thread: a coroutine makes the reply and holds a place in its request class meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine

from broker_store.ports import Peer
from broker_store.requests.request_classes import RequestClass
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response

_log = get_logger()


class DeferredReplies:
    """Runs the coroutines of one request class and sends what they return."""

    def __init__(self, requests: RequestClass, now_ms: Callable[[], int]) -> None:
        self._requests = requests
        self._now_ms = now_ms
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, peer: Peer, command: Command, reply: Coroutine[None, None, bytes | None]) -> None:
        """Send what `reply` returns, unless it is None. A WireError becomes the error reply. Raises SYSTEM_BUSY when the class is full."""
        try:
            self._requests.enter(self._now_ms())
        except WireError:
            reply.close()
            raise
        task = asyncio.ensure_future(self._run(peer, command, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for the running coroutines."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def cancel(self) -> None:
        """Cancel the running coroutines without an answer."""
        for task in self._tasks:
            task.cancel()
        await self.close()

    async def _run(self, peer: Peer, command: Command, reply: Coroutine[None, None, bytes | None]) -> None:
        try:
            frame = await reply
        except WireError as error:
            frame = encode_response(error.code, command.opaque, remark=str(error))
        except OSError as error:
            host, port = peer.remote
            _log.error(
                "a request failed because the disk did",
                code=command.code, peer=f"{host}:{port}", error=str(error),
            )  # fmt: skip
            remark = f"{type(error).__name__}: {error.strerror}"  # the path is not the client's business
            frame = encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark=remark)
        except Exception as error:  # noqa: BLE001 - answer the client, as every other handler does
            host, port = peer.remote
            _log.exception("request failed", code=command.code, peer=f"{host}:{port}")
            remark = f"{type(error).__name__}: {error}"
            frame = encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark=remark)
        finally:
            self._requests.leave()
        if frame is not None and not command.is_oneway:
            peer.send(frame)
