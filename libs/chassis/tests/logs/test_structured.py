"""Log lines carry their fields, as text and as JSON."""

import json
import logging
import sys

import pytest
import structlog

from gantry_chassis.logs.structured import configure, flush, get_logger, request_id


def said(capfd: pytest.CaptureFixture[str]) -> str:
    flush()
    return capfd.readouterr().err


@pytest.fixture(autouse=True)
def _as_before():
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def test_json_lines_carry_service_request_and_fields(capfd: pytest.CaptureFixture[str]) -> None:
    configure("gateway", json=True)
    token = request_id.set("r-1")
    get_logger(part="routes").info("sent", topic="orders")
    request_id.reset(token)
    event = json.loads(said(capfd))
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "sent", "level": "info", "service": "gateway", "request_id": "r-1", "part": "routes", "topic": "orders",
    }  # fmt: skip


def test_text_lines_quote_values_with_spaces(capfd: pytest.CaptureFixture[str]) -> None:
    configure("gateway")
    get_logger().warning("refused", reason="too long", size=7)
    line = said(capfd)
    assert line.endswith("Z warning refused reason='too long' size=7\n")


def test_a_traceback_follows_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    configure("gateway")
    try:
        raise ValueError("boom")
    except ValueError:
        get_logger().exception("failed")
    first, *rest = said(capfd).splitlines()
    assert first.endswith("error   failed")
    assert rest[-1] == "ValueError: boom"


def test_lines_below_the_level_are_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    configure("gateway", "warning")
    get_logger().info("chatter")
    logging.getLogger("uvicorn.error").info("chatter")
    assert said(capfd) == ""


def test_other_libraries_log_in_the_same_form(capfd: pytest.CaptureFixture[str]) -> None:
    configure("gateway")
    logging.getLogger("httpx").warning("slow answer")
    assert "warning slow answer source=httpx" in said(capfd)


def test_our_logs_do_not_load_rich() -> None:
    import subprocess

    code = "import sys, gantry_chassis.logs.structured; raise SystemExit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
