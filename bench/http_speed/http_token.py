"""Single HTTP sends with a token of a user with policies, compared with sends without access control: CPU of the gateway.

    python bench/http_speed/http_token.py [--turns 2000] [--users 1000]

Two gateways in this process, without sockets and without a store's work, take turns of eight sends. So the ratio is a lower bound: what a
client and a store spend on a send is the same for both and not counted. Each pair of turns gives a ratio; the median of them counts,
so that other load of the machine, which hits both, hardly matters.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

from gantry_access.entries.contents import policies_entry, token_entry, user_entry
from gantry_access.entries.entry import Entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.actions import Action
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import EVERYTHING, Resource
from gantry_access.model.users import Subject, User
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.stored_token import StoredToken
from gantry_access.tokens.token_text import token_hash, token_text
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_guard.audit import Audit
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.failures import FailureLimits
from gantry_guard.guard import Guard
from gantry_guard.introduction import Introducer, Introductions
from gantry_guard.refusals import Refusals
from gateway.process.assembly import AccessParts
from hot_paths.hot_http import BODY, CONNECTIONS, SENDS, TOPIC, Gateway, Kind, request_of
from reporting.figures import figure

POLICIES = 10
"""Of each user."""
HOUR_MS = 3_600_000


def entries(users: int, token: StoredToken) -> list[Entry]:
    """Return users with policies, and the token of the first one."""
    made: list[Entry] = [token_entry(token, 1)]
    for number in range(users):
        name = f"user-{number}"
        allowed = [f"Topic:{TOPIC}", *(f"Topic:other-{number}-{policy}*" for policy in range(POLICIES - 1))]
        policies = tuple(
            PolicyEntry(Resource.parse(text), Action.PUB | Action.SUB, Decision.ALLOW) for text in allowed
        )
        made += [user_entry(User(name), 1), policies_entry(SubjectPolicies(Subject(name), policies), 1)]
    return made


def guarded(users: int, audit_file: Path) -> tuple[AccessParts, str]:
    """Return access control with so many users, and the header of a token."""
    environment = machine()
    keys = ClusterKeys({"bench": environment.secret_bytes(32)})
    table = AccessTable(keys.sealing)
    text, now_ms = token_text(environment.secret_bytes(32)), environment.wall_ms()
    scope = (ScopeEntry(EVERYTHING, Action.PUB),)
    table.take(
        entries(users, StoredToken("bench", "user-0", token_hash(text), scope, now_ms, now_ms + HOUR_MS))
    )
    table.is_complete = True
    audit = Audit.of(str(audit_file), "gateway", Metrics(), environment)
    guard = Guard(
        keys=keys,
        table=table,
        introductions=Introductions(keys.inner, environment.secret_bytes),
        introducer=Introducer(keys.inner, "gateway", environment.secret_bytes),
        failures=FailureLimits(environment.steady),
        audit=audit,
        refusals=Refusals(audit, None, is_permissive=False),
        certificates=CertificateUsers(table, is_on=False),
        now_ms=environment.wall_ms,
    )
    parts = AccessParts(guard, cast("Any", None), None, environment.secret_bytes)
    return parts, f"authorization: Bearer {text.reveal()}\r\n"


async def turn(gateway: Gateway, kind: Kind, number: int, header: str) -> float:
    """Return the CPU microseconds of one send in a turn of eight."""
    took = await gateway.turn([request_of(kind, number, header)] * CONNECTIONS)
    for answer in gateway.answers():
        assert answer.startswith(b"HTTP/1.1 200"), answer[:1000]
    return took / CONNECTIONS * 1e6


async def run(options: argparse.Namespace, audit_file: Path) -> None:
    """Measure in turns, the one first that was second before."""
    parts, header = guarded(options.users, audit_file)
    plain, with_token = Gateway(), Gateway(parts)
    body = json.dumps({"messages": [{"body": BODY}]}).encode()
    kind = Kind(SENDS, partial(_same, body))
    gc.freeze()
    without: list[float] = []
    tokens: list[float] = []
    for number in range(options.turns + options.turns // 4):
        order = ((plain, "", without), (with_token, header, tokens))
        for gateway, line, each in order if number % 2 else reversed(order):
            each.append(await turn(gateway, kind, number, line))
    ratios = [a / b for a, b in zip(without, tokens, strict=True)][options.turns // 4 :]
    words = (
        f"{median(without):.2f} us without, {median(tokens):.2f} us with a token, of {options.users} users"
    )
    figure("http_token.send", median(ratios), "of without", floor=1.0, words=words)
    parts.guard.audit.close()


def _same(body: bytes, _number: int) -> bytes:
    return body


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--users", type=int, default=1000)
    with TemporaryDirectory() as folder:
        asyncio.run(run(parser.parse_args(), Path(folder) / "audit.jsonl"))


if __name__ == "__main__":
    main()
