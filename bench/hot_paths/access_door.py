"""The door of a remoting port: CPU of admitting frames, without sockets and processes.

    python bench/hot_paths/access_door.py [--users 1000] [--body 1000] [--count 20000] [--profile]

Prints CPU microseconds (of this process, so other load hardly counts) of a signed send in both header forms and with a known head, of a signed pull, of the frame of an
introduced service, and of a send with a wrong signature. The audit log counts without a file, then with one.
"""

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gantry_access.entries.contents import policies_entry, user_entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.actions import Action
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import NONCE_SIZE
from gantry_access.signatures.remoting import sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_guard.audit import Audit
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.door import Door
from gantry_guard.failures import FailureLimits
from gantry_guard.introduction import INNER, Introductions
from gantry_guard.refusals import Refusals
from gantry_link.serving.peer import Peer
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, JSON, FrameDecoder, RawFrame
from gantry_wire.frames.known_headers import KnownHeaders
from reporting.figures import figure

SECRET = "a secret key of usual length"
KEYS = ClusterKeys({"k1": bytes(32)})
PART = 100
"""Frames between two looks at the clock."""


def table(users: int) -> AccessTable:
    found = AccessTable(KEYS.sealing)
    for number in range(users):
        name = f"user-{number}"
        sealed = KEYS.sealing.seal(name, HiddenText(SECRET), os.urandom(NONCE_SIZE))
        entries = tuple(
            PolicyEntry(Resource.parse(text), actions, Decision.ALLOW)
            for text, actions in (
                ("Topic:orders*", Action.PUB | Action.SUB),
                ("Group:group*", Action.SUB),
            )
        )
        found.take(
            [
                user_entry(User(name, secrets=(sealed,)), 1),
                policies_entry(SubjectPolicies(Subject(name), entries), 1),
            ]
        )
    found.is_complete = True
    return found


def door(access: AccessTable, file: Path | None) -> Door:
    metrics, environment = Metrics(), machine()
    audit = Audit(file, "bench", metrics, wall_ms=environment.wall_ms, make_thread=environment.make_thread)
    return Door(
        access,
        Introductions(KEYS.inner, os.urandom),
        "DefaultCluster",
        failures=FailureLimits(environment.steady),
        certificates=CertificateUsers(access, is_on=False),
        refusals=Refusals(audit, None, is_permissive=False),
        now_ms=environment.wall_ms,
    )


def send_fields(number: int) -> dict[str, str]:
    return {
        "a": "producers", "b": f"orders-{number % 8}", "c": "TBW102", "d": "8", "e": str(number % 8), "f": "0",
        "g": str(1_700_000_000_000 + number), "h": "0", "i": f"UNIQ_KEY\x017F0000010000{number:020}\x02WAIT\x01true\x02TAGS\x01TagA",
        "j": "0", "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip


def pull_fields(number: int) -> dict[str, str]:
    return {
        "consumerGroup": "group", "topic": f"orders-{number % 8}", "queueId": str(number % 8), "queueOffset": str(number), "maxMsgNums": "32",
        "sysFlag": "6", "commitOffset": str(number), "suspendTimeoutMillis": "15000", "subscription": "*", "subVersion": "1700000000000",
        "expressionType": "TAG",
    }  # fmt: skip


Frames = Callable[[int, argparse.Namespace], RawFrame]


def signed_frame(
    code: int, fields: dict[str, str], body: bytes, user: str, secret: str, kind: int
) -> RawFrame:
    signed = sign(fields, body, user, SigningKey(secret))
    return FrameDecoder().receive(encode_request(code, 1, signed, body, serialize_type=kind))[0]


def json_send(number: int, options: argparse.Namespace) -> RawFrame:
    user = f"user-{number % options.users}"
    return signed_frame(310, send_fields(number), bytes(options.body), user, SECRET, JSON)


def binary_send(number: int, options: argparse.Namespace) -> RawFrame:
    user = f"user-{number % options.users}"
    return signed_frame(310, send_fields(number), bytes(options.body), user, SECRET, BINARY)


def pull(number: int, options: argparse.Namespace) -> RawFrame:
    return signed_frame(11, pull_fields(number), b"", f"user-{number % options.users}", SECRET, JSON)


def wrong(number: int, options: argparse.Namespace) -> RawFrame:
    return signed_frame(
        310, send_fields(number), bytes(options.body), f"user-{number % options.users}", "guess", JSON
    )


def unsigned(number: int, options: argparse.Namespace) -> RawFrame:
    return FrameDecoder().receive(encode_request(310, 1, send_fields(number), bytes(options.body)))[0]


def peer(*, is_inner: bool) -> Peer:
    attributes: dict[str, Any] = {INNER: "gateway"} if is_inner else {}
    return cast("Peer", SimpleNamespace(attributes=attributes, remote=("10.1.2.3", 4711)))


def repeated_send(number: int, options: argparse.Namespace) -> RawFrame:
    """Return a send of one user and topic: as those of one producer."""
    fields = {**send_fields(number), "b": "orders-0"}
    return signed_frame(310, fields, bytes(options.body), "user-0", SECRET, BINARY)


def admitting_known(at: Door, caller: Peer) -> Callable[[RawFrame], object]:
    """Return what admits frames as a store does that knows their heads."""
    headers = KnownHeaders()

    def admit(frame: RawFrame) -> None:
        known = headers.find(frame.header)
        if known is not None and at.admits_known(caller, known, frame.body):
            return
        at.admit(caller, frame)
        headers.read(frame, known)

    return admit


def measure(name: str, at: Door, caller: Peer, make: Frames, options: argparse.Namespace) -> None:
    admit = admitting_known(at, caller) if make is repeated_send else partial(at.admit, caller)
    each: list[float] = []
    profiler = cProfile.Profile()
    is_refused = make is wrong
    for first in range(0, options.count, PART):
        frames = [make(number, options) for number in range(first, first + PART)]
        if options.profile:
            profiler.enable()
        began = time.process_time()
        for frame in frames:
            try:
                admit(frame)
            except RefusedRequest:
                assert is_refused
        each.append((time.process_time() - began) / PART * 1e6)
        profiler.disable()
    if options.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(16)
    each.sort()
    figure(f"access_door.{name}", each[len(each) // 2], "us", words=f"median; best {each[0]:.2f}")


def run(options: argparse.Namespace) -> None:
    access = table(options.users)
    with tempfile.TemporaryDirectory() as folder:
        for words, file in (("", None), (", audited", Path(folder) / "audit.log")):
            at = door(access, file)
            measure(f"signed JSON send{words}", at, peer(is_inner=False), json_send, options)
            measure(f"signed binary send{words}", at, peer(is_inner=False), binary_send, options)
            measure(
                f"signed binary send, known head{words}", at, peer(is_inner=False), repeated_send, options
            )
            measure(f"signed pull{words}", at, peer(is_inner=False), pull, options)
            measure(f"wrong signature{words}", at, peer(is_inner=False), wrong, options)
            measure(f"introduced service{words}", at, peer(is_inner=True), unsigned, options)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--body", type=int, default=1000, help="bytes of a message")
    parser.add_argument("--count", type=int, default=20_000, help="frames of each kind")
    parser.add_argument("--profile", action="store_true", help="print where the time goes (slows it down)")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
