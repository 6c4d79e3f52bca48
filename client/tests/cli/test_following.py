"""`gantrymq tail -f` while the gateway or a broker is down, and when its topic is deleted."""

from __future__ import annotations

import io
from typing import Any

import httpx
import pytest

from gantrymq.cli.calls import Calls
from gantrymq.cli.commands import reading
from gantrymq.cli.screen import Screen
from gantrymq.cli.stops import NOT_FOUND, Stop

MESSAGE = {
    "messageId": "A1", "topic": "t", "broker": "broker-a", "queueId": 0, "queueOffset": 7, "keys": [], "properties": {},
    "bornTimestamp": "2026-01-01T00:00:00.000Z", "storeTimestamp": "2026-01-01T00:00:00.001Z", "body": "late",
}  # fmt: skip


class Quiet:
    """A session without a terminal."""

    def __init__(self) -> None:
        self.calls = Calls("http://x", None)
        self.out, self.err = io.StringIO(), io.StringIO()
        self.screen = Screen(as_json=False, out=self.out, err=self.err)


def test_it_waits_for_unreachable_parts_and_ends_with_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AWAY_SECONDS", 0)
    found = {"status": "FOUND", "nextOffset": 8, "minOffset": 0, "maxOffset": 8, "messages": [MESSAGE]}
    gone = {"code": "TOPIC_NOT_EXIST", "detail": "topic t does not exist"}
    answers: list[Any] = [
        httpx.ConnectError, httpx.Response(503, json={}), httpx.Response(200, json=found), httpx.Response(404, json=gone, headers={"content-type": "application/problem+json"}),
    ]  # fmt: skip
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.params["offset"]))
        one = answers.pop(0)
        if isinstance(one, httpx.Response):
            return one
        raise one("refused", request=request)

    client = httpx.AsyncClient
    monkeypatch.setattr(
        httpx,
        "AsyncClient",
        lambda **named: client(base_url=named["base_url"], transport=httpx.MockTransport(answer)),
    )
    session = Quiet()
    following = reading._Following(session, "t", {"filter": None, "sql": None, "encoding": None}, full=False)  # pyright: ignore[reportArgumentType]
    with pytest.raises(Stop, match="topic t does not exist; gantrymq topic list") as ended:
        reading._run(following.run([("broker-a", 0, 0, 7)]))
    assert ended.value.status == NOT_FOUND
    assert asked == ["7", "7", "7", "8"]
    assert session.out.getvalue() == "2026-01-01 00:00:00.001 broker-a:0@7 late\n"
    assert session.err.getvalue().startswith("waiting: cannot reach the gateway at http://x")
