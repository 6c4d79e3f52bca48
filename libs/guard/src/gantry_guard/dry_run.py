"""`./gantry access dry-run`: which requests of the audit logs changed policies would have decided differently.

It reads only files: audit logs, and the policies to try, each file with all policies of one user in RocketMQ's form (AclInfo). A user whom the
files do not name is not looked at. Of a line only what policies decided counts: no wrong signature, and no request of a Super user.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from gantry_access.errors import AccessError
from gantry_access.evaluation.state import AccessState
from gantry_access.evaluation.verdicts import Reason
from gantry_access.formats.acl_info import AclInfo, read_acl
from gantry_access.formats.refused_change import RefusedChange
from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Inner, Need, OfRecord, Open, Requirement
from gantry_access.model.networks import SourceAddress
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User
from gantry_chassis.machine.environment import machine
from gantry_guard.audit import NOT_LISTED, OF_RECORD, TEXT_CHARS_MAX, Line

MINUTES_DEFAULT = 60
MINUTES_MAX = 60 * 24 * 366
POLICY_FILE_BYTES_MAX = 16 * 1024 * 1024
DONE, WRONG_USE = 0, 2
BY_POLICIES = frozenset({Reason.ALLOWED.value, Reason.DENIED.value, Reason.NO_MATCH.value})
"""Reasons of decisions that depend on policies."""
_SIMPLE: Mapping[str, Requirement] = {kind.__name__: kind() for kind in (AnyUser, Inner, Open)}


class Unusable(Exception):
    """A file cannot be read, or does not hold what it should; the message names it."""


class Change(NamedTuple):
    """Requests of one kind that would be decided differently."""

    user: str
    address: str
    request: str
    resources: str
    was: str
    """`allowed` or `refused`, as `becomes`."""
    becomes: str
    rule: str
    """The entry that decides now; empty if none matches."""
    requests: int


class Outcome(NamedTuple):
    """What was found in the audit logs."""

    requests: int
    """Requests of the named users that policies decided."""
    unreadable: int
    """Requests that could not be decided again: their line is cut or damaged."""
    changes: list[Change]


def read_policies(path: Path) -> SubjectPolicies:
    """Return the policies of a file. Raises Unusable."""
    try:
        with path.open("rb") as file:
            content = file.read(POLICY_FILE_BYTES_MAX + 1)
        if len(content) > POLICY_FILE_BYTES_MAX:
            raise Unusable(f"{path} is larger than {POLICY_FILE_BYTES_MAX} bytes")
        info = msgspec.json.decode(content, type=AclInfo)
        if not any(policy.entries for policy in info.policies):  # a user that may do nothing
            return SubjectPolicies(Subject.parse(info.subject or ""))
        return read_acl(content, "")
    except OSError as error:
        raise Unusable(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise Unusable(f"{path} does not hold the policies of a user as JSON: {error}") from error
    except RefusedChange as refused:
        raise Unusable(f"{path}: {refused.remark}") from refused
    except AccessError as error:
        raise Unusable(f"{path}: {error}") from error


def read_lines(path: Path, since_ms: int) -> Iterator[Line | None]:
    """Yield the lines of an audit log, and of the one that was renamed before it, from a wall time on; None for a damaged one. Raises Unusable."""
    decode = msgspec.json.Decoder(Line).decode
    for one in (path.with_name(f"{path.name}.1"), path):
        try:
            with one.open("rb") as file:
                for text in file:
                    try:
                        line = decode(text)
                    except msgspec.MsgspecError:
                        yield None
                        continue
                    if line.time_ms >= since_ms:
                        yield line
        except FileNotFoundError:
            if one == path:
                raise Unusable(f"there is no audit log {path}") from None
        except OSError as error:
            raise Unusable(f"cannot read {one}: {error.strerror}") from error


def requirements_of_text(text: str) -> tuple[Requirement, ...]:
    """Return what a line's `resources` say. Raises AccessError or ValueError for a text that was cut."""
    if not text or len(text) >= TEXT_CHARS_MAX:
        raise ValueError("the resources are missing or cut")
    return tuple(map(_requirement, text.split("; ")))


def try_policies(lines: Iterable[Line | None], policies: Sequence[SubjectPolicies]) -> Outcome:
    """Decide the audited requests again, with other policies of these users."""
    state = AccessState.of([User(one.subject.name) for one in policies], policies)
    named = {one.subject.name for one in policies}
    counts: dict[Change, int] = {}
    requests = unreadable = 0
    for line in lines:
        if line is None:
            unreadable += 1
            continue
        if line.user not in named or line.reason not in (*BY_POLICIES, NOT_LISTED):
            continue
        requests += line.count
        try:
            required = requirements_of_text(line.resources)
            source = SourceAddress.parse(line.address)
        except (AccessError, ValueError):
            unreadable += line.count
            continue
        verdict = state.decide(line.user, required, source, line.time_ms)
        was = "allowed" if line.decision == "allowed" else "refused"  # also what the mode permits
        becomes = "allowed" if verdict.is_allowed else "refused"
        if becomes != was:
            rule = verdict.deciding
            change = Change(
                line.user, line.address, line.request, line.resources, was, becomes,
                "" if rule is None else rule.text, 0,
            )  # fmt: skip
            counts[change] = counts.get(change, 0) + line.count
    changes = [change._replace(requests=count) for change, count in counts.items()]
    return Outcome(requests, unreadable, sorted(changes, key=lambda one: (one.user, -one.requests, one)))


def _requirement(text: str) -> Requirement:
    if text in _SIMPLE:
        return _SIMPLE[text]
    actions, on, resource = text.partition(" on ")
    if not on:
        raise ValueError(f"{text[:64]!r} is not a requirement")
    needed = Action.parse_all(actions.split("/"))
    return OfRecord(needed) if resource == OF_RECORD else Need(Resource.parse(resource), needed)


def main(arguments: Sequence[str]) -> int:
    """Print what would be different, and return the exit status."""
    options = _options(arguments)
    try:
        policies = [read_policies(path) for path in options.files]
        logs = options.audit or sorted(options.folder.glob("*.jsonl"))
        if not logs:
            raise Unusable(f"there is no audit log in {options.folder}: name one with --audit")
        since_ms = machine().wall_ms() - options.minutes * 60_000
        outcome = try_policies((line for log in logs for line in read_lines(log, since_ms)), policies)
    except Unusable as error:
        sys.stderr.write(f"gantry: {error}\n")
        return WRONG_USE
    text = msgspec.json.encode(
        outcome._asdict() | {"changes": [one._asdict() for one in outcome.changes]}
    ).decode()
    sys.stdout.write(text + "\n" if options.json else _words(outcome, options.minutes))
    return DONE


def _words(outcome: Outcome, minutes: int) -> str:
    """Return the outcome for people."""
    differing = sum(one.requests for one in outcome.changes)
    lines = [
        f"{differing} of {outcome.requests} requests of the last {minutes} minutes would be decided differently"
    ]
    for one in outcome.changes:
        lines.append(
            f"  {one.requests}  {one.was} → {one.becomes}: {one.user} from {one.address}, {one.request}"
        )
        lines.append(f"      needs {one.resources}; {one.rule or 'no entry matches'}")
    if outcome.unreadable:
        lines.append(f"{outcome.unreadable} could not be decided again: their lines are cut or damaged")
    return "\n".join(lines) + "\n"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./gantry access dry-run", description=__doc__)
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="all policies of one user, as JSON"
    )
    parser.add_argument(
        "--minutes", type=_minutes, default=MINUTES_DEFAULT, help="how far back to look (default 60)"
    )
    parser.add_argument(
        "--audit", metavar="FILE", action="extend", nargs="+", type=Path, help="audit logs to read"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="folder of the audit logs, without --audit"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser.parse_args(arguments)


def _minutes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MINUTES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MINUTES_MAX}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
