"""Sends messages to a gateway over one persistent connection, and repeats what may succeed later. Standard library only."""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

CALL_SECONDS_MAX: Final = 60.0
PAUSE_SECONDS_MAX: Final = 5.0
_RETRYABLE_STATUS: Final = {408, 425, 429, 500, 502, 503, 504}


def encoded(message: Mapping[str, Any]) -> bytes:
    """Return a message for a request: in UTF-8, because JSON's escapes would take six bytes for a letter of two."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def request_of(messages: Sequence[bytes]) -> bytes:
    """Return the body of the request that sends messages."""
    return b'{"messages":[' + b",".join(messages) + b"]}"


class SendRefused(Exception):
    """A gateway refused a message, permanently or until the time for retries was over; the text names the first refusal."""


class Gateway:
    """A connection to a gateway, for one task."""

    def __init__(self, address: str, token: str | None, retry_seconds: float) -> None:
        self._address = address.rstrip("/")
        self._token = token
        self._retry_seconds = retry_seconds
        parts = urllib.parse.urlsplit(self._address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.netloc, timeout=CALL_SECONDS_MAX)
        self._base = parts.path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def send(self, topic: str, messages: Sequence[bytes]) -> list[dict[str, Any]]:
        """Send messages made by `encoded`. Return their results in order, each one stored. Repeats those that may succeed. Raises SendRefused."""
        results: list[dict[str, Any]] = [{} for _ in messages]
        waiting = list(range(len(messages)))
        until = time.monotonic() + self._retry_seconds
        pause = 0.1
        while waiting:
            again: list[int] = []
            answers = self._call(topic, [messages[number] for number in waiting])
            for number, answer in zip(waiting, answers, strict=True):
                if answer.get("status") == "SEND_OK":
                    results[number] = answer
                elif not answer.get("retryable") or time.monotonic() > until:
                    raise SendRefused(_words(topic, answer))
                else:
                    again.append(number)
            if again:
                time.sleep(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
            waiting = again
        return results

    def _call(self, topic: str, messages: list[bytes]) -> list[dict[str, Any]]:
        """Return one answer per message; if the call as a whole failed, that failure for each."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        path = f"{self._base}/v1/topics/{urllib.parse.quote(topic, safe='')}/messages"
        try:
            self._connection.request("POST", path, request_of(messages), headers)
            reply = self._connection.getresponse()
            status, content = reply.status, reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return [{"detail": f"{self._address}: {error or type(error).__name__}", "retryable": True}] * len(
                messages
            )
        try:
            found = json.loads(content)
        except ValueError:
            found = {}
        if "results" in found:
            return found["results"]
        found.setdefault("detail", f"HTTP status {status}")
        found["retryable"] = found.get("retryable", status in _RETRYABLE_STATUS)
        return [found] * len(messages)


def _words(topic: str, answer: dict[str, Any]) -> str:
    detail = f"{answer.get('code', '')} {answer.get('detail', '')}".strip()
    field = f" (field {answer['field']})" if answer.get("field") else ""
    tried = " It was repeated until retrySeconds were over." if answer.get("retryable") else ""
    return f"the gateway did not accept a message for {topic}: {detail}{field}.{tried}"
