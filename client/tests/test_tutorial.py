"""Every Python example of docs/sdk.md, section by section, against the real system of the session."""

import ast
import asyncio
import re
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "sdk.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WRITTEN_ADDRESS = "127.0.0.1:9876"


def sections():
    """Return heading → its examples, one after the other, as one program."""
    parts = re.split(r"^## (.+)$", TUTORIAL.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    programs = {
        title: "\n".join(EXAMPLE.findall(text)) for title, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {title: program for title, program in programs.items() if program}


@pytest.mark.cluster
@pytest.mark.parametrize("title", sections())
def test_the_examples_of_a_section_run(title, served, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", served.nameserver)
    program = sections()[title].replace(WRITTEN_ADDRESS, served.nameserver)
    code = compile(program, f"docs/sdk.md, {title}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    awaited = eval(code, {"__name__": "example"})
    if awaited is not None:
        asyncio.run(awaited)
