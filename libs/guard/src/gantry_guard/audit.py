"""The audit log: one JSON object a line, about what was refused, allowed and changed. It never holds a secret.

`timeMs`, `service`, `user`, `way` (how it was proven), `address`, `request`, `resources` (what the request required), `decision` (`refused`, `permitted`, `allowed` or
`changed`), `reason` or `rule`, `count`; of changes `before` and `after`. Refusals are written as they come, but only some per second; the others are
counted. Allowed requests, and those that only the permissive mode lets pass, are counted by what decided them, and written every ten seconds. A
thread writes the file; beyond a bound lines are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gantry_access.evaluation.rules import Rule
from gantry_access.evaluation.verdicts import Reason, Verdict
from gantry_access.model.needs import Need, OfRecord, Requirement
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Environment, MakeThread
from gantry_chassis.metrics import Counter, Metrics

FLUSH_SECONDS = 10.0
REFUSALS_PER_SECOND_MAX = 100
ALLOWED_MAX = 4096
"""Kinds of allowed requests counted before they are written early."""
PERMITTED_MAX = 1024
"""Kinds of permitted requests in ten seconds. Their users are not verified, so that a client could name any number; the others are one line."""
RESOURCES_MAX = 16
"""Resources of a request that are listed; a heartbeat may have thousands."""
WAITING_BYTES_MAX = 8 * 1024 * 1024
FILE_BYTES_MAX = 64 * 1024 * 1024
OF_RECORD = "the topic of the record"
TEXT_CHARS_MAX = 1024
"""A longer text of a peer is cut."""

_log = get_logger()
_encode = msgspec.json.Encoder().encode


class Asked(NamedTuple):
    """A caller and its request."""

    user: str
    address: str
    """IP address, without the port."""
    request: str
    """Name of the code, method or route."""
    required: tuple[Requirement, ...] = ()
    way: str = ""
    """How the user was proven: `signature`, `certificate`, `secret`, `token`, `jwt`; empty where it was not."""


@dataclass(slots=True)
class _Allowed:
    asked: Asked
    rule: Rule | None
    reason: Reason
    count: int


class _Permitted(NamedTuple):
    asked: Asked
    reason: str
    rule: str


_NOT_LISTED = _Permitted(Asked("", "", ""), "not_listed", "")


class Line(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """One line."""

    time_ms: int
    service: str
    decision: str
    user: str = ""
    way: str = ""
    address: str = ""
    request: str = ""
    resources: str = ""
    reason: str = ""
    rule: str = ""
    count: int = 1
    before: str = ""
    after: str = ""


class Audit:
    """The audit log of one process. Without a file it counts only."""

    def __init__(
        self,
        file: Path | None,
        service: str,
        metrics: Metrics,
        *,
        wall_ms: Callable[[], int],
        make_thread: MakeThread,
    ) -> None:
        """`file`: created with mode 0600. Raises OSError if it cannot be opened."""
        self._service, self._wall_ms = service, wall_ms
        self._requests = metrics.counters(
            "access_requests", "Requests by why they were allowed or refused.", ("reason",)
        )
        self._reasons: dict[Reason, Counter] = {
            reason: self._requests.labels(reason.value) for reason in Reason
        }
        self._allowed: dict[tuple[Asked, int], _Allowed] = {}
        self._permits = metrics.counters(
            "access_permitted",
            "Requests that access_mode=permissive let pass, by why they would be refused.",
            ("reason",),
        )
        self._permitted: dict[_Permitted, int] = {}
        self._second = self._refused_in_second = self._refused_unwritten = 0
        self._writer = None if file is None else _Writer(file, make_thread)
        metrics.counted(
            "access_audit_dropped", "Lines of the audit log that were dropped.", lambda: self.dropped
        )

    @classmethod
    def of(cls, file: str, service: str, metrics: Metrics, environment: Environment) -> Audit:
        """Return the audit log of a process with its settings. Raises OSError if the file cannot be opened."""
        path = Path(file) if file else None
        return cls(path, service, metrics, wall_ms=environment.wall_ms, make_thread=environment.make_thread)

    @property
    def dropped(self) -> int:
        """Lines that were dropped because the file was slow or full."""
        return 0 if self._writer is None else self._writer.dropped

    def allowed(self, asked: Asked, verdict: Verdict) -> None:
        """Count an allowed request under the rule that decided."""
        self._reasons[verdict.reason].value += 1
        if self._writer is None:
            return
        rule = verdict.rules[0] if verdict.rules else None
        asked = _bounded(asked)
        key = asked, id(rule)  # the value keeps the rule, so no other one gets its id
        counted = self._allowed.get(key)
        if counted is not None:
            counted.count += 1
            return
        if len(self._allowed) >= ALLOWED_MAX:
            self.flush()
        self._allowed[key] = _Allowed(asked, rule, verdict.reason, 1)

    def refused(self, asked: Asked, reason: str, rule: str = "") -> None:
        """Note a refused request. `reason`: one word; `rule`: the rule that decided, if one did."""
        self._requests.labels(reason).value += 1
        if self._writer is None:
            return
        now_ms = self._wall_ms()
        if now_ms // 1000 != self._second:
            self._note_unwritten(now_ms)
            self._second, self._refused_in_second = now_ms // 1000, 0
        self._refused_in_second += 1
        if self._refused_in_second > REFUSALS_PER_SECOND_MAX:
            self._refused_unwritten += 1
            return
        self._write(asked, now_ms, "refused", reason=reason, rule=rule)

    def permitted(self, asked: Asked, reason: str, rule: str = "") -> None:
        """Count a request that only the permissive mode lets pass. `reason` and `rule` are those of the refusal."""
        self._permits.labels(reason).value += 1
        if self._writer is None:
            return
        kind = _Permitted(_bounded(asked)._replace(user=asked.user[:TEXT_CHARS_MAX]), reason, rule)
        if kind not in self._permitted and len(self._permitted) >= PERMITTED_MAX:
            kind = _NOT_LISTED
        self._permitted[kind] = self._permitted.get(kind, 0) + 1

    def changed(self, asked: Asked, before: str, after: str) -> None:
        """Note an administrative change, with JSON of what was before and is after it: never with a secret."""
        if self._writer is not None:
            self._write(asked, self._wall_ms(), "changed", before=before, after=after)

    def flush(self) -> None:
        """Pass what was counted to the thread."""
        counted, self._allowed = self._allowed, {}
        now_ms = self._wall_ms()
        for one in counted.values():
            rule = "" if one.rule is None else one.rule.text
            self._write(one.asked, now_ms, "allowed", reason=one.reason.value, rule=rule, count=one.count)
        permitted, self._permitted = self._permitted, {}
        for kind, count in permitted.items():
            self._write(kind.asked, now_ms, "permitted", reason=kind.reason, rule=kind.rule, count=count)
        self._note_unwritten(now_ms)

    async def run(self) -> None:
        """Flush every ten seconds until cancelled. Run it as a supervised, named loop."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.flush()

    def close(self) -> None:
        """Write everything and end the thread. Blocks until then."""
        if self._writer is not None:
            self.flush()
            self._writer.close()

    def _note_unwritten(self, now_ms: int) -> None:
        count, self._refused_unwritten = self._refused_unwritten, 0
        if count:
            self._write(Asked("", "", ""), now_ms, "refused", reason="not_listed", count=count)

    def _write(self, asked: Asked, now_ms: int, decision: str, **parts: Any) -> None:
        assert self._writer is not None
        line = Line(
            time_ms=now_ms,
            service=self._service,
            decision=decision,
            user=asked.user[:TEXT_CHARS_MAX],
            way=asked.way,
            address=asked.address,
            request=asked.request,
            resources=_resources(asked.required),
            **parts,
        )
        self._writer.put(_encode(line) + b"\n")


def _bounded(asked: Asked) -> Asked:
    """Return a request with at most one requirement more than are listed."""
    if len(asked.required) <= RESOURCES_MAX:
        return asked
    return asked._replace(required=asked.required[: RESOURCES_MAX + 1])


def _resources(required: tuple[Requirement, ...]) -> str:
    """Return what a request requires. A cut list ends with `…`, or has TEXT_CHARS_MAX characters."""
    texts = [requirement_text(one) for one in required[:RESOURCES_MAX]]
    if len(required) > RESOURCES_MAX:
        texts.append("…")
    return "; ".join(texts)[:TEXT_CHARS_MAX]


def requirement_text(required: Requirement) -> str:
    """Return a requirement in words, such as `Pub on Topic:orders`."""
    if isinstance(required, Need):
        return f"{'/'.join(required.actions.names)} on {required.resource.text}"
    if isinstance(required, OfRecord):
        return f"{'/'.join(required.actions.names)} on {OF_RECORD}"
    return type(required).__name__


class _Writer:
    """The queue of lines and the thread that appends them to the file."""

    def __init__(self, file: Path, make_thread: MakeThread) -> None:
        self._file = file
        self._descriptor = _opened(file)
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self.dropped = 0
        self._thread = make_thread(self._step, "audit")
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue one line, or drop it if too many wait."""
        with self._lock:
            if self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
                self.dropped += 1
                return
            self._lines.append(line)
            self._waiting_bytes += len(line)
        self._thread.wake()

    def close(self) -> None:
        self._thread.wake()
        self._thread.stop()
        os.close(self._descriptor)

    def _step(self) -> float | None:
        with self._lock:
            lines, self._lines = self._lines, deque()
            self._waiting_bytes = 0
        if lines:
            try:
                self._append(b"".join(lines))
            except OSError as error:
                self.dropped += len(lines)
                _log.error("cannot write the audit log", file=str(self._file), error=error.strerror)
        return None

    def _append(self, data: bytes) -> None:
        here = os.fstat(self._descriptor)
        if here.st_size >= FILE_BYTES_MAX:
            self._file.replace(self._file.with_name(f"{self._file.name}.1"))
            self._reopen()
        elif not _is_same(here, self._file):  # another process of the service, or a tool, moved it
            self._reopen()
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _reopen(self) -> None:
        descriptor = _opened(self._file)
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = descriptor


def _opened(file: Path) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_same(here: os.stat_result, file: Path) -> bool:
    try:
        return os.path.samestat(here, file.stat())
    except FileNotFoundError:
        return False
