"""A peer with a scripted answer for each request code. Records the requests."""

import contextlib

from scripted_link import serving

from gantry_link.connections.pool import ConnectionPool
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response


class Script:
    """`answers[code]` = (code, fields, body, remark). A code without an entry gets no answer."""

    def __init__(self, answers=None):
        self.answers, self.asked, self.peers = answers or {}, [], {}

    def __call__(self, peer, frame):
        command = decode_command(frame)
        self.asked.append(command)
        self.peers[peer] = None
        answer = self.answers.get(command.code)
        if answer is None or command.is_oneway:
            return
        code, fields, body, remark = (*answer, *(0, None, b"", None)[len(answer) :])
        peer.send(encode_response(code, command.opaque, fields, body, remark))

    @property
    def last(self):
        return self.asked[-1]


@contextlib.asynccontextmanager
async def scripted(answers=None):
    """Yield (script, address, pool)."""
    script = Script(answers)
    async with serving(script) as (_, port):
        pool = ConnectionPool()
        try:
            yield script, f"127.0.0.1:{port}", pool
        finally:
            await pool.close()
