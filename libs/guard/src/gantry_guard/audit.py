"""The audit log: one JSON object a line, about what was refused, allowed and changed. It never holds a secret.

`timeMs`, `service`, `user`, `way` (how it was proven), `address`, `request`, `resources` (what the request required), `decision` (`refused`, `permitted`, `allowed` or
`changed`), `reason` or `rule`, `count`; of changes `before` and `after`. Refusals are written as they come, but only some per second; the others are
counted. Allowed requests, and those that only the permissive mode lets pass, are counted by what decided them, and written every ten seconds.

What strangers are refused has a file of its own, so that no flood of theirs pushes other lines out of the kept files. The first request of a kind
(address, claimed user, request, reason) is written as it comes, the others of the next ten seconds are counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gantry_access.evaluation.rules import Rule
from gantry_access.evaluation.verdicts import Reason, Verdict
from gantry_access.model.needs import Need, OfRecord, Requirement
from gantry_chassis.machine.environment import Environment, MakeThread
from gantry_chassis.metrics import Counter, Metrics
from gantry_guard.audit_file import AuditFile

FLUSH_SECONDS = 10.0
REFUSALS_PER_SECOND_MAX = 100
ALLOWED_MAX = 4096
"""Kinds of allowed requests counted before they are written early."""
ALLOWED_OF_USER_MAX = 256
"""The same of one user in ten seconds; the others are one line. A right on a prefix would otherwise let a user write a line a request."""
PERMITTED_MAX = 1024
"""Kinds of permitted requests in ten seconds. Their users are not verified, so that a client could name any number; the others are one line."""
STRANGERS_MAX = 1024
"""Kinds of requests of strangers in ten seconds; the others are one line."""
STRANGERS_OF_ADDRESS_MAX = 64
"""The same of one address, so that one stranger does not hide the others: names of users and numbers of requests are free to choose."""
STRANGERS_SUFFIX = ".strangers"
RESOURCES_MAX = 16
"""Resources of a request that are listed; a heartbeat may have thousands."""
OF_RECORD = "the topic of the record"
TEXT_CHARS_MAX = 1024
"""A longer text of a peer is cut."""

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
    reason: str
    count: int


class _Permitted(NamedTuple):
    asked: Asked
    reason: str
    rule: str


class _Stranger(NamedTuple):
    user: str
    """As claimed."""
    address: str
    request: str
    reason: str


NOT_LISTED = "not_listed"
_NOT_LISTED = _Permitted(Asked("", "", ""), NOT_LISTED, "")


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
        self._kinds_of_user: dict[str, int] = {}
        """Kinds of allowed requests, by their user."""
        self._permits = metrics.counters(
            "access_permitted",
            "Requests that access_mode=permissive let pass, by why they would be refused.",
            ("reason",),
        )
        self._permitted: dict[_Permitted, int] = {}
        self._second = self._refused_in_second = self._refused_unwritten = 0
        self._strangers: dict[_Stranger, int] = {}
        self._kinds_of: dict[str, int] = {}
        """Kinds of requests of strangers, by their address."""
        self._writer = self._strangers_writer = None
        if file is not None:
            self._writer = AuditFile(file, make_thread)
            self._strangers_writer = AuditFile(file.with_name(f"{file.name}{STRANGERS_SUFFIX}"), make_thread)
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
        return sum(one.dropped for one in (self._writer, self._strangers_writer) if one is not None)

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
        kinds = self._kinds_of_user.get(asked.user, 0)
        if kinds >= ALLOWED_OF_USER_MAX:
            self._count_not_listed(asked.user)
            return
        self._kinds_of_user[asked.user] = kinds + 1
        self._allowed[key] = _Allowed(asked, rule, verdict.reason.value, 1)

    def refused(self, asked: Asked, reason: str, rule: str = "") -> None:
        """Note a refused request. `reason`: one word; `rule`: the rule that decided, if one did."""
        self._requests.labels(reason).value += 1
        if self._writer is None:
            return
        if not asked.way:
            self._note_stranger(asked, reason)
            return
        now_ms = self._wall_ms()
        if now_ms // 1000 != self._second:
            self._note_unwritten(now_ms)
            self._second, self._refused_in_second = now_ms // 1000, 0
        self._refused_in_second += 1
        if self._refused_in_second > REFUSALS_PER_SECOND_MAX:
            self._refused_unwritten += 1
            return
        self._write(asked, now_ms, "refused", self._writer, reason=reason, rule=rule)

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
            self._write(asked, self._wall_ms(), "changed", self._writer, before=before, after=after)

    def flush(self) -> None:
        """Pass what was counted to the thread."""
        counted, self._allowed, self._kinds_of_user = self._allowed, {}, {}
        now_ms = self._wall_ms()
        for one in counted.values():
            rule = "" if one.rule is None else one.rule.text
            self._write(
                one.asked,
                now_ms,
                "allowed",
                self._writer,
                reason=one.reason,
                rule=rule,
                count=one.count,
            )
        permitted, self._permitted = self._permitted, {}
        for kind, count in permitted.items():
            self._write(
                kind.asked, now_ms, "permitted", self._writer, reason=kind.reason, rule=kind.rule, count=count
            )
        strangers, self._strangers, self._kinds_of = self._strangers, {}, {}
        for kind, count in strangers.items():
            if count:
                self._write_stranger(kind, now_ms, count)
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
        if self._strangers_writer is not None:
            self._strangers_writer.close()

    def _count_not_listed(self, user: str) -> None:
        """Count an allowed request of a user beyond the kinds that are listed of it."""
        asked = Asked(user, "", "")
        counted = self._allowed.setdefault((asked, 0), _Allowed(asked, None, NOT_LISTED, 0))
        counted.count += 1

    def _note_stranger(self, asked: Asked, reason: str) -> None:
        """Write or count a refused request of a stranger, within the bounds of kinds."""
        address = asked.address
        kind = _Stranger(asked.user[:TEXT_CHARS_MAX], address, asked.request, reason)
        if kind not in self._strangers:
            if self._kinds_of.get(address, 0) >= STRANGERS_OF_ADDRESS_MAX:
                kind = _Stranger("", address, "", NOT_LISTED)
            if kind not in self._strangers and len(self._strangers) >= STRANGERS_MAX:
                kind = _Stranger("", "", "", NOT_LISTED)
            elif kind not in self._strangers:
                self._kinds_of[address] = self._kinds_of.get(address, 0) + 1
        if kind in self._strangers:
            self._strangers[kind] += 1
        else:
            self._strangers[kind] = 0
            self._write_stranger(kind, self._wall_ms(), 1)

    def _write_stranger(self, kind: _Stranger, now_ms: int, count: int) -> None:
        asked = Asked(kind.user, kind.address, kind.request)
        self._write(asked, now_ms, "refused", self._strangers_writer, reason=kind.reason, count=count)

    def _note_unwritten(self, now_ms: int) -> None:
        count, self._refused_unwritten = self._refused_unwritten, 0
        if count:
            self._write(Asked("", "", ""), now_ms, "refused", self._writer, reason=NOT_LISTED, count=count)

    def _write(
        self, asked: Asked, now_ms: int, decision: str, writer: AuditFile | None, **parts: Any
    ) -> None:
        assert writer is not None
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
        writer.put(_encode(line) + b"\n")


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
