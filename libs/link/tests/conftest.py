import contextlib
import socket
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # scripted_link, shared by these tests


@pytest.fixture(scope="session")
def anyio_backend():
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture
def full_listener():
    """Return the address of a listening socket with a full backlog: further connects hang."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"
