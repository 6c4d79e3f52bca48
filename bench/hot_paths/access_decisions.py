"""Decisions of access control: CPU and memory with many users and policies, without sockets and processes.

    python bench/hot_paths/access_decisions.py [--users 10000] [--policies 100000] [--count 100000] [--profile]

Prints CPU microseconds of a decision (of this process, so other load hardly counts) about a hundred users in turn, and about all; of making a
need from the name of a topic; and the memory of all users and policies. A fifth of the entries are prefixes, a tenth is
limited to networks, and each user has one entry on `Topic:*`.
"""

import argparse
import cProfile
import gc
import pstats
import time
import tracemalloc
from collections.abc import Callable

from gantry_access.evaluation.state import AccessState
from gantry_access.model.actions import Action
from gantry_access.model.needs import Need
from gantry_access.model.networks import SourceAddress, SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource, ResourceType
from gantry_access.model.users import Subject, User
from reporting.figures import figure

SOURCE = SourceAddress.parse("10.1.2.3")
NOW_MS = 1_700_000_000_000
ACTIVE = 100
"""Users that send requests at one time. The last measurement asks about every user in turn, so the processor's caches do not help."""
PART = 100
"""Decisions between two looks at the clock."""
PREFIXES, LIMITED = 5, 10
"""Every how many entries is a prefix, or limited to networks."""


def user_name(number: int) -> str:
    return f"user-{number:05}"


def policies_of(user: int, count: int) -> SubjectPolicies:
    entries = [PolicyEntry(Resource.every(ResourceType.TOPIC), Action.GET, Decision.ALLOW)]
    for number in range(count - 1):
        networks = (SourceNetwork.parse(f"10.{user % 256}.0.0/16"), SourceNetwork.parse("10.1.0.0/16"))
        star = "*" if number % PREFIXES == PREFIXES - 1 else ""
        entries.append(
            PolicyEntry(
                Resource.parse(f"Topic:orders-{user}-{number}{star}"),
                Action.PUB | Action.SUB,
                Decision.ALLOW,
                networks if number % LIMITED == 0 else (),
            )
        )
    return SubjectPolicies(Subject(user_name(user)), tuple(entries))


def make(users: int, policies: int) -> AccessState:
    return AccessState.of(
        [User(user_name(number), secrets=("x" * 64,)) for number in range(users)],
        (policies_of(number, policies // users) for number in range(users)),
    )


def literal(user: int) -> list[Need]:
    return [Need(Resource.topic(f"orders-{user}-1"), Action.PUB)]


def limited(user: int) -> list[Need]:
    return [Need(Resource.topic(f"orders-{user}-0"), Action.PUB)]


def prefix(user: int) -> list[Need]:
    return [Need(Resource.topic(f"orders-{user}-4711"), Action.PUB)]


SUB_OR_GET = Action.SUB | Action.GET


def pull(user: int) -> list[Need]:
    return [
        Need(Resource.topic(f"orders-{user}-1"), SUB_OR_GET),
        Need(Resource.topic(f"orders-{user}-2"), SUB_OR_GET),
    ]


def refused(user: int) -> list[Need]:
    return [Need(Resource.topic(f"payments-{user}"), Action.PUB)]


KINDS: dict[str, tuple[Callable[[int], list[Need]], bool]] = {
    "literal": (literal, True),
    "limited to networks": (limited, True),
    "prefix": (prefix, True),
    "two needs": (pull, True),
    "refused": (refused, False),
}
"""What makes the needs, and whether they are allowed."""


def measure(name: str, state: AccessState, users_max: int, options: argparse.Namespace) -> None:
    needs_of, is_allowed = KINDS[name]
    each: list[float] = []
    profiler = cProfile.Profile()
    for first in range(0, options.count, PART):
        users = [(first + number) * 7919 % users_max for number in range(PART)]
        names = [user_name(user) for user in users]
        needs = [needs_of(user) for user in users]
        if options.profile:
            profiler.enable()
        began = time.process_time()
        for name_of, wanted in zip(names, needs, strict=True):
            assert state.decide(name_of, wanted, SOURCE, NOW_MS).is_allowed is is_allowed
        each.append((time.process_time() - began) / PART * 1e6)
        profiler.disable()
    if options.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(12)
    each.sort()
    label = name if users_max == ACTIVE else f"{name}, all users in turn"
    figure(f"access_decisions.{label}", each[len(each) // 2], "us", words=f"median; best {each[0]:.2f}")


def measure_needs(options: argparse.Namespace) -> None:
    each: list[float] = []
    for first in range(0, options.count, PART):
        topics = [f"orders-{number}" for number in range(first, first + PART)]
        began = time.process_time()
        for topic in topics:
            Need(Resource.topic(topic), SUB_OR_GET)
        each.append((time.process_time() - began) / PART * 1e6)
    each.sort()
    figure("access_decisions.need", each[len(each) // 2], "us", words=f"median; best {each[0]:.2f}")


def run(options: argparse.Namespace) -> None:
    tracemalloc.start()
    state = make(options.users, options.policies)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    figure(
        "access_decisions.memory",
        held / 1e6,
        "MB",
        words=f"{options.users} users, {options.policies} policies",
    )
    gc.freeze()  # as the processes do after their start
    for name in KINDS:
        measure(name, state, ACTIVE, options)
    measure("literal", state, options.users, options)
    measure_needs(options)
    began = time.process_time()
    for number in range(PART):
        state = state.with_policies(policies_of(number, options.policies // options.users))
    took = (time.process_time() - began) / PART * 1e6
    figure("access_decisions.one user changed", took, "us", words=f"mean of {PART}")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--policies", type=int, default=100_000, help="entries of all users together")
    parser.add_argument("--count", type=int, default=100_000, help="decisions of each kind")
    parser.add_argument("--profile", action="store_true", help="print where the time goes (slows it down)")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
