"""Options are parsed within their limits; a refused one gives one line that says what to do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_loadtest.catalog import PROFILES
from gantry_loadtest.load.shapes import SHAPES
from gantry_loadtest.options import Plan, Refused, parse

SOURCES = Path(__file__).parents[1] / "src"


def plan_of(*words: str) -> Plan:
    plan = parse(list(words))
    assert isinstance(plan, Plan)
    return plan


def test_omitted_options_are_the_profiles_defaults() -> None:
    plan = plan_of("ramp", "--rate", "300")
    assert (plan.users, plan.rate, plan.seconds, plan.host, plan.role) == (50, 300, 60, None, "local")
    assert plan.rate_per_user == 6
    assert plan_of("send", "--max-lost", "3", "--max-p99-ms", "12.5").limits.max_lost == 3


@given(st.floats(3, 604_800))
def test_there_is_always_time_to_load_and_to_drain(seconds: float) -> None:
    plan = plan_of("send", "--seconds", repr(seconds))
    assert 1.5 <= plan.load_seconds < seconds
    assert 1.4 < seconds - plan.load_seconds <= 30.01


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["burts"], "no such profile: burts; did you mean burst?"),
        (["zzzz"], "no such profile: zzzz; there are send, "),
        ([], "which profile? There are send, "),
        (["send", "--users", "0"], "'0' is not a whole number from 1 to 10000"),
        (["send", "--users", "²"], "'²' is not a whole number"),
        (["send", "--rate", "nan"], "'nan' is not a number from 0.01 to 100000"),
        (["send", "--rate", "1e9"], "'1e9' is not a number from 0.01"),
        (["send", "--seconds", "2"], "'2' is not a number from 3 to 604800"),
        (["send", "--max-lost", "-1"], "'-1' is not a whole number from 0"),
        (["send", "--host", "ftp://x"], "'ftp://x' is not the address of a gateway; write http://HOST:PORT"),
        (["send", "--host", "http://h:99999"], "is not the address of a gateway"),
        (["send", "--count", "3"], "--count: send has no groups or topics to count"),
        (["send", "--worker", "x"], "--host is needed"),
        (["send", "--host", "h", "--worker", "x:y"], "'x:y' is not the address of a master"),
        (["send", "--host", "h:1", "--master", "2", "--worker", "h"], "a process is one of them"),
        (["send", "--out", f"{__file__}/there"], "not a folder that can be written"),
        (["send", "--secnods", "5"], "unrecognized arguments: --secnods 5"),
    ],
)  # fmt: skip
def test_impossible_options_are_refused_in_one_line(words: list[str], message: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(words)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_hosts_have_the_forms_of_other_commands() -> None:
    assert plan_of("send", "--host", "127.0.0.1:8080").host == "http://127.0.0.1:8080"
    assert plan_of("send", "--host", "https://mq.example.com/").host == "https://mq.example.com"


def test_every_profile_has_a_module_a_shape_and_its_place_in_the_guide() -> None:
    guide = (SOURCES.parents[1] / "docs" / "load.md").read_text()
    for name, entry in PROFILES.items():
        assert (SOURCES / "gantry_loadtest" / "profiles" / f"{entry.module}.py").exists()
        assert entry.shape in SHAPES
        assert f"| `{name}` | {entry.question}" in guide
        assert f"`{entry.measure}`" in guide


def test_listing_and_refusing_need_no_locust() -> None:
    listing = "import sys; from gantry_loadtest.__main__ import main; status = main(sys.argv[1:]); assert not {'locust', 'gevent'} & set(sys.modules); sys.exit(status)"
    command = [sys.executable, "-c", listing]
    environment = {"PYTHONPATH": str(SOURCES)}
    ran = subprocess.run(
        [*command, "--list", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(ran.stdout) == list(PROFILES)
    ran = subprocess.run(
        [*command, "nothing"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("gantry: load: no such profile: nothing; ")
