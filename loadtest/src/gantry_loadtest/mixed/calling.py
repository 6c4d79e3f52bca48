"""A keep-alive connection to the gateway for one thread, and calls repeated until they are answered."""

import http.client
import json
import time
from typing import Any

Answer = tuple[int, dict[str, Any]]

CALL_SECONDS_MAX = 45.0
PATIENCE_SECONDS = 240.0
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.03, 0.5
RETRYABLE = frozenset({429, 502, 503, 504, 507})
"""Temporary refusals: 507 ends when old segments are deleted from a full disk."""


class NoAnswer(AssertionError):
    """A call was repeated for longer than anything may take, without a definite answer."""


class Http:
    """One connection, reopened when it breaks. For one thread at a time."""

    def __init__(self, base: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._host = base.removeprefix("http://")
        self._patience = patience_seconds
        self._connection: http.client.HTTPConnection | None = None
        self.repeats = 0
        """How often `insist` called again: what was called before may have taken effect, or may yet."""

    def call(self, method: str, path: str, body: object = None) -> Answer:
        """Return status and JSON; status 0 when there was no answer."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, timeout=CALL_SECONDS_MAX)
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, data, {"content-type": "application/json"})
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError):
            self._connection.close()
            self._connection = None
            return 0, {}

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def insist(self, method: str, path: str, body: object = None) -> Answer:
        """Call until the answer is definite: neither missing nor a retryable refusal. Raises NoAnswer."""
        until = time.monotonic() + self._patience
        pause = PAUSE_SECONDS
        while True:
            status, answer = self.call(method, path, body)
            if status and status not in RETRYABLE:
                return status, answer
            if time.monotonic() > until:
                raise NoAnswer(f"no definite answer to {method} {path}: {status} {answer}")
            self.repeats += 1
            time.sleep(pause)
            pause = min(PAUSE_SECONDS_MAX, pause * 1.5)
