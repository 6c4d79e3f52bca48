"""The helpers beside these tests are imported by name."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # guarded, shared by these tests


@pytest.fixture(scope="session")
def anyio_backend():
    return ("asyncio", {"use_uvloop": True})
