"""Every Python example of docs/sdk-http.md, section by section, against the real system of the session."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

import httpx
import pytest

from gantrymq.testing import System

TUTORIAL = Path(__file__).parents[3] / "docs" / "sdk-http.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PARTS = re.split(r"^## (.+)$", TUTORIAL.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
TOPIC = "http-tutorial"


@pytest.mark.parametrize(("title", "text"), list(zip(PARTS[::2], PARTS[1::2], strict=True)), ids=PARTS[::2])
def test_the_examples_of_a_section_run(
    title: str, text: str, gantry_broker: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANTRY_HTTP", gantry_broker.http)
    httpx.put(f"{gantry_broker.http}/v1/topics/{TOPIC}", timeout=90).raise_for_status()
    program = "\n".join(EXAMPLE.findall(text)).replace("http://127.0.0.1:8080", gantry_broker.http)
    program = program.replace('"orders"', f'"{TOPIC}"')
    code = compile(program, f"docs/sdk-http.md, {title}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    awaited = eval(code, {"__name__": "example"})
    if awaited is not None:
        asyncio.run(awaited)
