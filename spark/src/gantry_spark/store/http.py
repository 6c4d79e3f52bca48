"""Makes and drops snapshots of a running store: two calls of its HTTP port. With access control they carry the token of GANTRY_TOKEN."""

from __future__ import annotations

import json
import logging
import os
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final

_log = logging.getLogger("gantry_spark")

SECONDS_MAX: Final = 120.0
"""A store that copies many queues takes a moment."""
ASK_SECONDS_MAX: Final = 3.0
"""For a replica that may be away: the others are asked, too."""
RECOVERY_SECONDS_MAX: Final = 120.0
_TRY_AGAIN_SECONDS: Final = 0.5
TOKEN_VARIABLE: Final = "GANTRY_TOKEN"  # noqa: S105 - the name of a variable
NO_ACCESS: Final = {401, 403}
_TOKEN: Final = f"set {TOKEN_VARIABLE} to a token of a user that may change the cluster"


class SnapshotRefused(Exception):
    """A running store made no snapshot; the text says why and what to do."""


class StoreAway(SnapshotRefused):
    """It does not answer."""


def make_snapshot(http: str, ttl_seconds: int) -> dict[str, Any]:
    """Return the manifest of a new snapshot; waits for a store that is still opening. Raises SnapshotRefused."""
    until = time.monotonic() + RECOVERY_SECONDS_MAX
    while True:
        try:
            return json.loads(_call("POST", f"{http.rstrip('/')}/snapshots?ttlSeconds={ttl_seconds}"))
        except urllib.error.HTTPError as error:
            words = _words(error)
            if error.code in NO_ACCESS:
                words += f"; {_TOKEN}"
            if error.code != 503 or time.monotonic() > until:
                raise SnapshotRefused(f"the store at {http} made no snapshot: {words}") from error
        except OSError as error:
            raise StoreAway(
                f"the store at {http} does not answer ({error}); is that its HTTP port?"
            ) from error
        time.sleep(_TRY_AGAIN_SECONDS)


def replication(http: str) -> dict[str, Any] | None:
    """Return what a replica says of its broker's replicas. None if it does not answer, has no replicas, or recovers its log."""
    try:
        return json.loads(_call("GET", f"{http.rstrip('/')}/v1/replication", ASK_SECONDS_MAX))
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code in NO_ACCESS:
            raise SnapshotRefused(
                f"the store at {http} does not say whether it leads: {_words(error)}; {_TOKEN}"
            ) from error
        return None


def drop_snapshot(http: str, snapshot_id: str) -> None:
    """Drop a snapshot at its store. A store that does not answer drops it when its time to live is over."""
    try:
        _call("DELETE", f"{http.rstrip('/')}/snapshots/{snapshot_id}")
    except OSError as error:
        _log.info("the snapshot %s stays at %s until its time is over: %s", snapshot_id, http, error)


def _call(method: str, url: str, seconds_max: float = SECONDS_MAX) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise SnapshotRefused(f"{url} is not an HTTP address")
    token = os.environ.get(TOKEN_VARIABLE)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - checked above
    with urllib.request.urlopen(request, timeout=seconds_max) as answer:  # noqa: S310
        return answer.read()


def _words(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error)
