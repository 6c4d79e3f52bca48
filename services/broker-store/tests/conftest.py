"""Lets tests import the shared in-memory ports by name. Async tests run on uvloop."""

import contextlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def anyio_backend():
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture
def group(tmp_path):
    """A broker group of three stores as real processes, with a NATS server for its register."""
    from group_stores import StoreGroup
    from nats_nodes import nodes

    with (
        nodes(tmp_path / "nats", 1) as (node,),
        contextlib.closing(StoreGroup(tmp_path, node.url, servers=1)) as started,
    ):
        started.start()
        yield started
