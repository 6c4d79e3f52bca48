"""A server with a scripted handler and plain client sockets, for the tests of this library."""

import asyncio
import contextlib

from gantry_link.serving.server import RemotingServer
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder

ECHO, RAISE, SILENT, PUSH, BULK = 9001, 9002, 9003, 9004, 9005


def answer_echo(peer, frame):
    """Answer ECHO with its own body; the other codes do what their names say."""
    command = decode_command(frame)
    if command.is_response or command.code == SILENT:
        return
    if command.code == RAISE:
        raise ValueError("no luck")
    if command.is_oneway:
        peer.attributes["last_oneway"] = command.body
        return
    if command.code == BULK:
        peer.send_parts([encode_response(0, command.opaque, None, bytes(int(command.body)))])
        return
    peer.send(encode_response(0, command.opaque, {"port": str(peer.local[1])}, command.body))


@contextlib.asynccontextmanager
async def serving(handler=answer_echo, **options):
    """Run a RemotingServer on a free port. Yields (server, port)."""
    server = RemotingServer(handler, **options)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.close()


class RawClient:
    """A plain socket that sends any bytes and reads frames."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self._decoder, self._commands = FrameDecoder(), []

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def send(self, data):
        self.writer.write(data)

    def ask(self, opaque, body=b"", code=ECHO, **options):
        self.send(encode_request(code, opaque, None, body, **options))

    async def receive(self, seconds=60.0):
        """Return the next command, or None at the end of the stream."""
        async with asyncio.timeout(seconds):
            while not self._commands:
                data = await self.reader.read(2**16)
                if not data:
                    return None
                self._commands += map(decode_command, self._decoder.receive(data))
        return self._commands.pop(0)

    async def is_closed(self, seconds=60.0):
        """Return whether the other side closes within the time."""
        try:
            async with asyncio.timeout(seconds):
                while await self.reader.read(2**16):
                    pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True


async def eventually(condition, seconds=60.0):
    """Wait until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
