"""Snapshots of a store with access control: the calls carry the token, and a refusal says what to set."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gantry_spark.store.http import SnapshotRefused, drop_snapshot, make_snapshot


class Store(BaseHTTPRequestHandler):
    """Answers a caller that has the token."""

    def _answer(self) -> None:
        is_known = self.headers.get("authorization") == "Bearer gantry_1"
        body = json.dumps({"id": "s1"} if is_known else {"error": "credentials are missing"}).encode()
        self.server.seen.append((self.command, self.path, is_known))  # type: ignore[attr-defined]
        self.send_response(200 if is_known else 401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def store() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        server.seen = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_snapshots_are_made_and_dropped_with_the_token(
    store: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANTRY_TOKEN", "gantry_1")
    http = f"http://127.0.0.1:{store.server_address[1]}"
    assert make_snapshot(http, 60) == {"id": "s1"}
    drop_snapshot(http, "s1")
    assert store.seen == [("POST", "/snapshots?ttlSeconds=60", True), ("DELETE", "/snapshots/s1", True)]  # type: ignore[attr-defined]


def test_a_refusal_says_what_to_set(store: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GANTRY_TOKEN", raising=False)
    with pytest.raises(SnapshotRefused, match="credentials are missing; set GANTRY_TOKEN"):
        make_snapshot(f"http://127.0.0.1:{store.server_address[1]}", 60)
