"""The checker of the demo reports each kind of fault."""

import http.server
import json
import threading
from contextlib import closing
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from gantry_launcher.demo import load as demo_load
from gantry_launcher.demo.load import TOPIC, History, Http, Load, judge
from gantry_launcher.errors import Refused

PAGE = 2


class Gateway(http.server.BaseHTTPRequestHandler):
    """Answers sends by a script and reads from the messages that the test gives."""

    protocol_version = "HTTP/1.1"
    stored: ClassVar[list[list[str]]]
    script: ClassVar[list[int]]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == f"/v1/topics/{TOPIC}":
            queues = [{"broker": "b", "queueId": i, "maxOffset": len(q)} for i, q in enumerate(self.stored)]
            return self._answer(200, {"queues": queues})
        queue = self.stored[int(url.path.split("/")[-2])]
        offset = int(parse_qs(url.query)["offset"][0])
        page = [
            {"queueOffset": offset + n, "body": body} for n, body in enumerate(queue[offset : offset + PAGE])
        ]
        return self._answer(200, {"messages": page, "nextOffset": offset + len(page)})

    def do_POST(self) -> None:
        item = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][0]
        status = self.script.pop(0) if self.script else 200
        if status == 200:
            self.stored[0].append(item["body"])
        result = {"broker": "b", "queueId": 0, "queueOffset": len(self.stored[0]) - 1}
        self._answer(status, {"results": [result]} if status == 200 else {"detail": "no"})

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway():
    class Scripted(Gateway):
        stored: ClassVar[list[list[str]]] = [[], []]
        script: ClassVar[list[int]] = []

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Scripted, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_everything_in_place_is_neither_lost_nor_duplicated(gateway) -> None:
    scripted, base = gateway
    scripted.stored = [["a", "b", "c"], ["d"]]
    history = History(acknowledged={"a": ("b", 0, 0), "c": ("b", 0, 2), "d": ("b", 1, 0)})
    verdict = judge(base, history)
    assert (verdict.found, verdict.lost, verdict.duplicated) == (4, 0, 0)


def test_a_missing_or_misplaced_message_is_lost(gateway) -> None:
    scripted, base = gateway
    scripted.stored = [["b"], []]
    history = History(acknowledged={"a": ("b", 1, 0), "b": ("b", 0, 1)})
    assert judge(base, history).lost == 2


def test_a_message_found_twice_is_a_duplicate(gateway) -> None:
    scripted, base = gateway
    scripted.stored = [["a", "a"], ["a"]]
    assert judge(base, History(acknowledged={"a": ("b", 0, 0)})).duplicated == 2


def test_a_queue_that_cannot_be_read_to_its_end_is_reported_after_a_timeout(
    gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted, base = gateway
    scripted.stored = [["a"], []]
    monkeypatch.setattr(demo_load, "READ_SECONDS_MAX", 0.1)
    with closing(Http(base)) as connection, pytest.raises(Refused, match="from offset 1 on"):
        demo_load._read(connection, "b", 0, 2)


def test_a_send_is_repeated_until_answered_and_counted_once(gateway) -> None:
    scripted, base = gateway
    scripted.script = [503, 504, 200]
    load = Load(base)
    with closing(Http(base)) as connection:
        load._until_answered(connection, "x")
    assert (load.history.acknowledged, load.history.repeated) == ({"x": ("b", 0, 0)}, 2)


def test_a_permanent_refusal_is_not_repeated(gateway) -> None:
    scripted, base = gateway
    scripted.script = [422]
    load = Load(base)
    with closing(Http(base)) as connection:
        load._until_answered(connection, "x")
    assert load.history.refused == ["422 no"]
    assert load.history.acknowledged == {}
