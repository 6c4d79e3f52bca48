"""Calls the gateway with Locust's fast client.

Each call is one request in Locust's statistics; refused ones are listed apart.
"""

import json as codec
from typing import Any

from locust.contrib.fasthttp import FastHttpSession
from locust.env import Environment

from gantry_loadtest.load.ports import Answer, Reply, reply_of
from gantry_loadtest.load.run_state import REFUSED, RunState

CONNECT_SECONDS_MAX = 10.0
ANSWER_SECONDS_MAX = 45.0
"""Longer than the longest held call (30 s)."""


class LocustCalls:
    """One client with its own connections."""

    def __init__(self, session: FastHttpSession, state: RunState) -> None:
        self._session, self._state = session, state

    @classmethod
    def opened(cls, environment: Environment, state: RunState) -> "LocustCalls":
        """Return a client that belongs to no user."""
        session = FastHttpSession(
            base_url=environment.host,
            request_event=environment.events.request,
            user=None,
            network_timeout=ANSWER_SECONDS_MAX,
            connection_timeout=CONNECT_SECONDS_MAX,
            max_retries=0,
            concurrency=1,
        )
        return cls(session, state)

    def call(
        self,
        name: str,
        method: str,
        path: str,
        json: Any = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        since: float | None = None,
        also: tuple[int, ...] = (),
    ) -> Answer:
        """See ports.Calls."""
        sent = dict(headers or {})
        payload: Any = data
        if json is not None:
            payload = codec.dumps(json).encode()
            sent["Content-Type"] = "application/json"
        if self._state.plan.token:
            sent["Authorization"] = f"Bearer {self._state.plan.token}"
        began = self._state.now() if since is None else since
        with self._session.request(
            method, path, name=name, data=payload or None, headers=sent, catch_response=True
        ) as response:
            meta = response.request_meta
            ms = meta["response_time"] = (self._state.now() - began) * 1000
            status = int(response.status_code or 0)
            body = _body(response.content)
            reply = reply_of(status)
            if reply is Reply.REFUSED:
                meta["name"] = f"{name}{REFUSED}"
                response.success()
            elif reply is Reply.DONE or status in also:
                response.success()
            else:
                words = _words(status, body, getattr(response, "error", None))
                self._state.findings.example(f"{name}: {words}")
                response.failure(words)
        return Answer(reply, status, body, ms)


def _body(content: bytes | None) -> dict[str, Any]:
    try:
        parsed = codec.loads(content) if content else {}
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _words(status: int, body: dict[str, Any], error: object) -> str:
    if not status:
        return f"no answer: {error}"
    return f"{status} {body.get('code', '')}: {body.get('detail', '')}"[:300]
