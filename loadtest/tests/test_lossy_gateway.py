"""Every profile through a gateway that damages messages: the verdict names each kind of damage and counts it exactly.

The proxy knows what it did, the load only what it saw: both must count the same, and no other check may count anything.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gantry_loadtest.catalog import PROFILES
from gantry_loadtest.judging.verdict import CHECKED

from .harms import (
    Damage,
    Delay,
    Deny,
    Drop,
    Duplicate,
    Fail,
    Hasten,
    Hide,
    HideAll,
    Mute,
    Reorder,
    Swallow,
)
from .lossy_gateway import Honest, LossyGateway

ROOT = Path(__file__).parents[2]
AT_ONCE = 8
LATE_MS = 2000
GROUPS, TOPICS = 3, 4
READERS = {"fan-out": GROUPS, "soak": 2}
"""How many must have each message, where it is not one."""
MEASURED = {
    "send": frozenset({"send"}),
    "delivery": frozenset({"pull", "receive"}),
    "lateness": frozenset({"pull"}),
    "transaction": frozenset({"commit", "rollback"}),
}
"""The calls that a latency waits for."""
ALL = frozenset(PROFILES)


@dataclass(frozen=True)
class Harm:
    """The damage, the name the verdict must use for it, which profiles can see it, and how often the verdict must count it."""

    word: str
    make: Callable[[int, str], Honest]
    profiles: frozenset[str]
    wanted: Callable[[Honest, str], int]


def once_each(proxy: Honest, _profile: str) -> int:
    return proxy.messages


def each_time(proxy: Honest, _profile: str) -> int:
    return proxy.times


def at_all_readers(proxy: Honest, profile: str) -> int:
    return proxy.messages * READERS.get(profile, 1)


def once_each_that_is_timed(proxy: Honest, profile: str) -> int:
    """Every tenth message of a soak user is delayed, so it does not count in the profile's own latency."""
    return sum(1 for _, mark in proxy.harmed if profile != "soak" or not mark.endswith("9"))


HARMS = {
    "drop": Harm("lost", lambda seed, _: Drop(seed), ALL, once_each),
    "swallow": Harm("lost", lambda seed, _: Swallow(seed), ALL, at_all_readers),
    "hide": Harm("lost", lambda seed, _: Hide(seed), ALL, once_each),
    # only undecided transactions are checked
    "mute": Harm("lost", lambda seed, _: Mute(seed, 1), frozenset({"transactions"}), once_each),
    "duplicate": Harm("duplicates", lambda seed, _: Duplicate(seed), ALL, each_time),
    # a group has no order: leases expire, and a message that is given back is delivered later
    "reorder": Harm("disordered", lambda seed, _: Reorder(seed), ALL - {"receive", "fan-out"}, each_time),
    # only these guarantee a delivery time, or no delivery before the decision
    "hasten": Harm(
        "early", lambda seed, _: Hasten(seed, 2), frozenset({"delay", "soak", "transactions"}), each_time
    ),
    "deny": Harm("forbidden", lambda seed, _: Deny(seed), ALL, once_each),
    "damage": Harm("damaged", lambda seed, _: Damage(seed), ALL, each_time),
    "fail": Harm("failed requests", lambda seed, _: Fail(seed), ALL, each_time),
    "delay": Harm(
        "late",
        lambda seed, profile: Delay(seed, MEASURED[PROFILES[profile].measure]),
        ALL,
        once_each_that_is_timed,
    ),
}
"""`late` is a latency beyond --max-p99-ms: no profile promises one of itself, all keep one that is asked for."""
CASES = [
    *((profile, "honest") for profile in PROFILES),
    *((profile, harm) for harm, one in HARMS.items() for profile in PROFILES if profile in one.profiles),
]


def sample() -> list[tuple[str, str]]:
    """Every profile without damage, and each damage with two of the profiles that see it: those used least so far."""
    chosen, harmed = [case for case in CASES if case[1] == "honest"], dict.fromkeys(PROFILES, 0)
    for harm, one in HARMS.items():
        for profile in sorted(one.profiles, key=lambda profile: (harmed[profile], profile))[:2]:
            harmed[profile] += 1
            chosen.append((profile, harm))
    return chosen


SAMPLE = sample()
"""The run by command has all cases, for longer."""


def proxy_of(profile: str, harm: str, seed: int) -> Honest:
    return Honest(seed) if harm == "honest" else HARMS[harm].make(seed, profile)


SHORT = ("--users", "4", "--rate", "30", "--seconds", "4", "--drain", "4", "--size", "300")
"""Some hundred messages at most: a harm to every fifth of each user is done several times."""
LONG = ("--seconds", "30", "--drain", "20")
"""With each profile's own users, rate and sizes."""


def words_of(profile: str, harm: str, load: tuple[str, ...], host: str) -> list[str]:
    many = {"fan-out": ["--count", str(GROUPS)], "topics": ["--count", str(TOPICS)]}.get(profile, [])
    # the last two of ten transactions of a user lose their producer
    longer = ["--seconds", "8"] if profile == "transactions" and load is SHORT else []
    late = ["--max-p99-ms", str(LATE_MS)] if harm == "delay" else []
    return [profile, "--host", host, "--headless", *load, *many, *longer, *late]


Ran = dict[tuple[str, str], tuple[dict[str, Any], Honest]]


def run_all(gateway: str, cases: list[tuple[str, str]], load: tuple[str, ...], seed: int) -> Ran:
    """Run loads in parallel, each through its own proxy; return the result and the proxy of each."""
    harms = {case: proxy_of(*case, seed + number) for number, case in enumerate(cases)}
    longest_first = sorted(
        harms.items(), key=lambda one: (one[0][0] != "transactions", one[0][1] == "honest")
    )
    with contextlib.ExitStack() as stack:
        loads: list[dict[str, Any]] = []
        for (profile, harm), one in longest_first:
            proxy = stack.enter_context(LossyGateway(gateway, one))
            words = words_of(profile, harm, load, proxy.address)
            loads.append({"name": f"{profile} {harm}", "words": words, "slowMs": LATE_MS})
        ran = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("many_loads.py")), str(AT_ONCE)],
            input=json.dumps(loads), capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    result = {tuple(one["name"].split(" ")): one for one in map(json.loads, ran.stdout.splitlines())}
    return {case: (result[case], harm) for case, harm in harms.items()}


def judge_case(profile: str, harm: str, result: dict[str, Any], proxy: Honest) -> None:
    counts = {name: result[name] for name in CHECKED}
    if harm == "honest":
        assert (result["verdict"], result["shortfalls"]) == ("pass", []), result
        assert (counts, result["notSeen"]) == (dict.fromkeys(CHECKED, 0), 0), result
        return
    word, wanted = HARMS[harm].word, HARMS[harm].wanted(proxy, profile)
    assert wanted > 0, "the proxy did nothing: a longer run is needed"
    assert result["verdict"] == "fail", result
    (shortfall,) = result["shortfalls"]
    assert {name: count for name, count in counts.items() if count} == (
        {word: wanted} if word in CHECKED else {}
    ), result
    if word == "late":
        assert shortfall.startswith(f"p99 of {PROFILES[profile].measure}: "), result
        assert result["slow"] >= wanted, result
    else:
        assert shortfall.startswith(f"{word}: {wanted}, "), result


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data, program = str(tmp_path_factory.mktemp("system")), str(ROOT / "gantry")
    up = [
        program, "up", "--free-ports", "--detach", "--json", "--data", data, "--set", "broker-store.send_wait_ms_max=60000",
        "--set", "txn-checker.transaction_timeout_ms=1500", "--set", "txn-checker.poll_ms=200",
    ]  # fmt: skip
    started = subprocess.run(up, capture_output=True, text=True, timeout=280, check=False)
    assert started.returncode == 0, started.stderr
    yield json.loads(started.stdout)["http"]
    subprocess.run([program, "down", "--data", data], timeout=120, check=True)


@pytest.fixture(scope="module")
def ran(gateway: str) -> Ran:
    """The sample, as short loads in parallel. A busy machine sends little: what a proxy did nothing to runs longer."""
    ran = run_all(gateway, SAMPLE, SHORT, 1)
    untouched = [
        case
        for case, (_, proxy) in ran.items()
        if case[1] != "honest" and not HARMS[case[1]].wanted(proxy, case[0])
    ]
    return {**ran, **run_all(gateway, untouched, (*SHORT, *LONG), 1)} if untouched else ran


@pytest.mark.cluster
@pytest.mark.timeout(1200)  # the first test runs all loads
@pytest.mark.parametrize(("profile", "harm"), SAMPLE)
def test_a_fault_fails_with_its_own_name_and_a_correct_gateway_passes(
    ran: Ran, profile: str, harm: str
) -> None:
    judge_case(profile, harm, *ran[profile, harm])


def test_every_fault_is_detected_by_some_profile_and_every_profile_detects_what_it_can() -> None:
    assert {one.word for one in HARMS.values()} == {*CHECKED, "failed requests", "late"}
    for cases in (CASES, SAMPLE):
        assert {profile for profile, _ in cases} == ALL
        assert {harm for _, harm in cases} == {"honest", *HARMS}
    assert {profile for profile, harm in SAMPLE if harm != "honest"} == ALL


@pytest.mark.cluster
def test_queues_that_never_deliver_fail_the_command(gateway: str) -> None:
    """As nothing arrives, readers need not wait long for more."""
    hidden = HideAll(1)
    with LossyGateway(gateway, hidden) as proxy:
        words = words_of("end-to-end", "hide", (*SHORT, "--seconds", "3", "--drain", "1"), proxy.address)
        ran = subprocess.run(
            [sys.executable, str(ROOT / "gantry"), "load", *words],
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.splitlines()[-1] == f"verdict: fail: lost: {hidden.messages}, none is allowed"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_longer_loads_of_every_profile_are_judged_correctly(gateway: str) -> None:
    wrong: list[str] = []
    for case, (result, proxy) in run_all(gateway, CASES, LONG, 1000).items():
        try:
            judge_case(*case, result, proxy)
        except AssertionError as error:
            wrong.append(f"{case}: {error}")
    assert wrong == []
