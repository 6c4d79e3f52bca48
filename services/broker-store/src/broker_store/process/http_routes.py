"""The store's HTTP side: health, metrics, snapshots for programs that read the files, its place in its broker group."""

import asyncio
from collections.abc import Callable
from typing import Any

from broker_store.log.errors import LogError
from broker_store.log.snapshot import Content, Snapshots, SnapshotUnknown, to_json
from broker_store.process.group.settings import CannotMove
from gantry_chassis.http.server import Request, Response, Routes, json_response
from gantry_chassis.machine.environment import Workers

TTL_SECONDS_DEFAULT = 600
TTL_SECONDS_MAX = 86_400
EXPIRE_SECONDS = 10.0
TRIES_MAX = 3
"""How often a snapshot is begun again because files of queues were removed before they were copied."""


class SnapshotRoutes:
    """POST /snapshots?ttlSeconds=, DELETE /snapshots/{id}. Answers 503 until the store is open, or follows."""

    def __init__(self, snapshots: Snapshots, thread: Workers, now_ms: Callable[[], int]) -> None:
        self._snapshots, self._thread, self._now_ms = snapshots, thread, now_ms
        self._content: Callable[[], Content | None] | None = None

    def open(self, content: Callable[[], Content | None]) -> None:
        """Serve from now on what `content` returns, in the loop. None: there is nothing to show yet."""
        self._content = content

    def shut(self) -> None:
        """Make no further snapshot: the log will be closed."""
        self._content = None

    def routes(self) -> Routes:
        """Return the table entries."""
        return {("POST", "/snapshots"): self.make, ("DELETE", "/snapshots/{id}"): self.drop}

    async def make(self, request: Request) -> Response:
        """Make a snapshot and return its manifest."""
        if self._content is None:
            return _not_open()
        text = request.query.get("ttlSeconds", str(TTL_SECONDS_DEFAULT))
        if not text.isdecimal() or not 1 <= int(text) <= TTL_SECONDS_MAX:
            return json_response({"error": f"ttlSeconds is a number in 1..{TTL_SECONDS_MAX}"}, 400)
        for _ in range(TRIES_MAX):
            content = None if self._content is None else self._content()
            if content is None:
                return _not_open()
            plan = self._snapshots.plan(content, self._now_ms(), int(text) * 1000)
            try:
                manifest = await self._thread.run(self._snapshots.finish, plan)
            except FileNotFoundError:  # meanwhile retention or the deletion of a topic removed a queue's file
                self._snapshots.drop(plan.manifest.id)
            except OSError as error:
                self._snapshots.drop(plan.manifest.id)
                return json_response({"error": f"the snapshot could not be copied: {error}"}, 507)
            else:
                return json_response(to_json(manifest), 201)
        return json_response({"error": "queues are being removed, try again in a moment"}, 503)

    async def expire(self) -> None:
        """Remove expired snapshots every few seconds, also of a replica that follows. Supervised."""
        while True:
            await asyncio.sleep(EXPIRE_SECONDS)
            await self._thread.run(self._snapshots.expire, self._now_ms())

    async def drop(self, request: Request) -> Response:
        """Drop a snapshot before it expires."""
        if self._content is None:
            return _not_open()
        try:
            await self._thread.run(self._snapshots.drop, request.path_params["id"])
        except SnapshotUnknown as error:
            return json_response({"error": str(error)}, 404)
        except (LogError, OSError) as error:
            return json_response({"error": str(error)}, 500)
        return Response(204)


class ReplicationRoute:
    """GET /v1/replication: what this store is for its broker group. POST /v1/replication/move-leader?to=: let another replica lead."""

    def __init__(self) -> None:
        self._describe: Callable[[], dict[str, Any]] | None = None
        self._move: Callable[[str], None] | None = None

    def open(self, describe: Callable[[], dict[str, Any]], move: Callable[[str], None]) -> None:
        """Answer from now on. `move` raises CannotMove."""
        self._describe, self._move = describe, move

    def routes(self) -> Routes:
        """Return the table entries."""
        return {("GET", "/v1/replication"): self.show, ("POST", "/v1/replication/move-leader"): self.move}

    async def show(self, _request: Request) -> Response:
        """Return it as JSON."""
        if self._describe is None:
            return json_response({"error": "this store has no replicas, or recovers its log"}, 404)
        return json_response(self._describe())

    async def move(self, request: Request) -> Response:
        """Let the replica `to` lead, or the best one that is in sync. Answers before it does: the new leader says so at /v1/replication."""
        if self._move is None:
            return json_response({"error": "this store has no replicas, or recovers its log"}, 404)
        try:
            self._move(request.query.get("to", ""))
        except CannotMove as error:
            return json_response({"error": str(error)}, 409)
        return Response(202)


def _not_open() -> Response:
    return json_response({"error": "the store is recovering, try again in a moment"}, 503)
