"""Validators narrow what access control allows, on both doors; whatever they do but return None refuses."""

import asyncio
import json
import sys

import pytest
from guarded import Guarded, connected, signed, table, user, validators_of
from structlog.testing import capture_logs
from test_admitted import MAY_PULL, pull, put
from test_door import MAY_SEND, SEND
from test_http_door import asks, made, of

from gantry_access.entries.contents import user_entry
from gantry_access.model.users import UserType
from gantry_chassis.metrics import Metrics
from gantry_chassis.settings.access import AccessSettings
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.introduction import INNER
from gantry_guard.opening import open_guard
from gantry_guard.validators import LOG_SECONDS, WORDS, WORDS_CHARS_MAX, Asked, load_validators
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

pytestmark = pytest.mark.anyio
ASKED = Asked("alice", "10.0.0.5", "SEND_MESSAGE_V2")


class Scripted:
    """A validator that does what it was given, and notes what it was asked."""

    def __init__(self, acts=None):
        self.acts, self.asked = acts, []

    def validate(self, asked):
        self.asked.append(asked)
        if isinstance(self.acts, BaseException):
            raise self.acts
        return self.acts


async def later():
    raise AssertionError("nobody awaits it")


class Unspeakable(Exception):
    """An error that cannot even be shown."""

    def __repr__(self):
        raise ValueError("no words")


ACTS = [
    (lambda: ValueError("the password is x"), WORDS),
    (lambda: RefusedRequest(ResponseCode.SUCCESS, "not on sundays"), "not on sundays"),
    (lambda: RefusedRequest(ResponseCode.SYSTEM_BUSY, "y" * 5000), "y" * WORDS_CHARS_MAX),
    (asyncio.CancelledError, WORDS),
    (GeneratorExit, WORDS),
    (lambda: SystemExit(3), WORDS),
    (KeyboardInterrupt, WORDS),
    (lambda: BaseExceptionGroup("two", [SystemExit(3)]), WORDS),
    (Unspeakable, WORDS),
    (lambda: False, WORDS),
    (lambda: True, WORDS),
    (later, WORDS),
]


async def ask(guarded, fields, code=310):
    async with connected(guarded.receive) as connection:
        answer = await connection.request(code, fields)
    return answer.code, answer.remark


@pytest.mark.parametrize(("act", "words"), ACTS)
async def test_over_remoting_whatever_a_validator_does_but_return_none_refuses(tmp_path, act, words):
    validator = Scripted(act())
    guarded = Guarded(table(MAY_SEND), validators=[validator], file=tmp_path / "audit")
    assert await ask(guarded, signed(SEND)) == (ResponseCode.NO_PERMISSION, words)
    assert guarded.handled == []
    assert guarded.counts() == {"validator": 1}
    guarded.audit.close()
    line = json.loads((tmp_path / "audit").read_text())
    assert (line["decision"], line["reason"], line["rule"]) == ("refused", "validator", "Scripted")
    assert "password" not in str(line)
    ((user, address, request, required, way),) = validator.asked
    assert (user, address, request, way) == ("alice", "127.0.0.1", "SEND_MESSAGE_V2", "signature")
    assert [(one.resource.text, one.actions.names) for one in required] == [("Topic:orders", ["Pub"])]


@pytest.mark.parametrize(("act", "words"), ACTS)
def test_over_http_whatever_a_validator_does_but_return_none_refuses(act, words):
    validator = Scripted(act())
    door, _ = made("broker-store", ("reader", UserType.NORMAL, ["Get"]), validators=[validator])
    denial = door.authorize(asks("GET", "/metrics", of("reader")))
    assert (denial.status, denial.words) == (403, words)
    assert [(one.user, one.request) for one in validator.asked] == [("reader", "GET /metrics")]


async def test_a_validator_that_returns_none_changes_nothing():
    first, second = Scripted(), Scripted()
    guarded = Guarded(table(MAY_SEND), validators=[first, second])
    assert (await ask(guarded, signed(SEND)))[0] == 0
    assert len(first.asked) == len(second.asked) == 1
    door, _ = made("broker-store", ("reader", UserType.NORMAL, ["Get"]), validators=[first])
    assert door.authorize(asks("GET", "/metrics", of("reader"))) is None


async def test_the_first_refusal_is_final_and_the_next_is_not_asked():
    first, second = Scripted(ValueError()), Scripted()
    assert (await ask(Guarded(table(MAY_SEND), validators=[first, second]), signed(SEND)))[0] != 0
    assert second.asked == []


@pytest.mark.parametrize("is_permissive", [False, True])
async def test_what_access_control_refuses_no_validator_is_asked_about(is_permissive):
    validator = Scripted()
    guarded = Guarded(table(MAY_SEND), validators=[validator], is_permissive=is_permissive)
    for fields in (SEND, signed({**SEND, "b": "secrets"}), signed(SEND, secret="wrong")):
        assert ((await ask(guarded, fields))[0] == 0) is is_permissive
    door, _ = made("broker-store", ("writer", UserType.NORMAL, ["Update"]), validators=[validator])
    assert door.authorize(asks("GET", "/metrics", of("writer"))).status == 403
    assert door.authorize(asks("GET", "/health/live")) is None
    assert validator.asked == []


async def test_the_permissive_mode_notes_a_validators_refusal_and_lets_the_request_pass():
    guarded = Guarded(table(MAY_SEND), validators=[Scripted(ValueError())], is_permissive=True)
    assert (await ask(guarded, signed(SEND)))[0] == 0
    assert guarded.counts() == {}
    assert guarded.counts("access_permitted") == {"validator": 1}
    door, _ = made(
        "broker-store", ("reader", UserType.NORMAL, ["Get"]), validators=[Scripted(ValueError())], is_permissive=True
    )  # fmt: skip
    assert door.authorize(asks("GET", "/metrics", of("reader"))) is None


async def test_a_super_user_is_narrowed_too_and_also_about_users_in_the_permissive_mode():
    validator = Scripted(ValueError())
    door, _ = made("gateway", ("root", UserType.SUPER, ["Get"]), validators=[validator], is_permissive=True)
    assert door.authorize(asks("GET", "/v1/users", of("root"))).status == 403
    assert door.authorize(asks("GET", "/v1/topics", of("root"))) is None


def test_heads_that_repeat_are_validated_each_time():
    def head(door):
        return door.fast_pass({b"authorization": of("reader")}, ("GET", "/v1/topics"), {})

    door, _ = made("gateway", ("reader", UserType.NORMAL, ["List"]))
    assert head(door) is not None
    door, _ = made("gateway", ("reader", UserType.NORMAL, ["List"]), validators=[Scripted()])
    assert head(door) is None


class Peer:
    remote = ("10.0.0.5", 4000)

    def __init__(self, **attributes):
        self.attributes = attributes


@pytest.mark.parametrize(("acts", "may"), [(None, True), (ValueError(), False)])
def test_checks_of_transactions_are_pushed_only_where_the_validators_let_the_user_send(acts, may):
    validator = Scripted(acts)
    guarded = Guarded(table(MAY_SEND), validators=[validator])
    peer = Peer(**{"access user": "alice"})
    assert guarded.door.may_send(peer, "orders") is may
    assert guarded.door.may_send(peer, "secrets") is False
    assert guarded.door.may_send(Peer(**{INNER: "store"}), "secrets") is True
    assert [one.request for one in validator.asked] == ["CHECK_TRANSACTION_STATE"]
    mild = Guarded(table(MAY_SEND), validators=[validator], is_permissive=True)
    assert mild.door.may_send(peer, "orders") is True


def test_a_held_pull_that_is_decided_again_asks_the_validators_too():
    validator, access = Scripted(), table(*MAY_PULL)
    admitted = pull(Guarded(access, validators=[validator]))
    assert admitted.refusal() is None
    assert len(validator.asked) == 1
    put(access, user_entry(user(name="bob"), 5))
    validator.acts = ValueError()
    assert (admitted.refusal().code, str(admitted.refusal())) == (ResponseCode.NO_PERMISSION, WORDS)


def test_failures_are_counted_and_logged_at_most_once_in_a_while():
    metrics, now = Metrics(), [100.0]
    validators = validators_of([Scripted(ValueError("no"))], metrics, lambda: now[0])
    with capture_logs() as logs:
        for _ in range(5):
            validators.refusal(ASKED)
        now[0] += LOG_SECONDS
        validators.refusal(ASKED)
    assert [(line["validator"], line["reason"]) for line in logs] == [("Scripted", "ValueError('no')")] * 2
    (family,) = [one for one in metrics.shown() if one.name == "access_validator_failures"]
    assert family.samples == [(("Scripted",), (6.0,))]
    refusing = validators_of([Scripted(RefusedRequest(16, "no"))], metrics := Metrics())
    refusing.refusal(ASKED)
    (family,) = [one for one in metrics.shown() if one.name == "access_validator_failures"]
    assert family.samples == [], "a refusal is no failure"


class Good:
    def validate(self, asked):
        """Let everything pass."""


class Unmade(Good):
    def __init__(self, _needed):
        pass


class Awaited:
    async def validate(self, asked):
        pass


class Without:
    validate = None


class Wrong:
    def validate(self, user, address):
        pass


def test_validators_are_loaded_by_place():
    assert load_validators(" , ", Metrics(), lambda: 0.0) is None
    found = load_validators("test_validators:Good, test_validators:Good", Metrics(), lambda: 0.0)
    assert found.refusal(ASKED) is None


def test_validators_are_loaded_by_the_entry_points_of_installed_packages(tmp_path, monkeypatch):
    package = tmp_path / "night_rules-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: night-rules\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[gantrymq.access]\nnight = night_rules:Night\n")
    (tmp_path / "night_rules.py").write_text(
        "class Night:\n    def validate(self, asked):\n        raise ValueError('it is dark')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = load_validators("night", Metrics(), lambda: 0.0)
    assert found.refusal(ASKED) == (WORDS, "night")
    sys.modules.pop("night_rules")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing_of_this_name", "no entry point 'nothing_of_this_name' in the group gantrymq.access"),
        ("test_nowhere:Good", "cannot be loaded"),
        ("test_validators:Nobody", "cannot be loaded"),
        ("test_validators:Unmade", "cannot be loaded"),
        ("test_validators:Without", "no method validate"),
        ("test_validators:Awaited", "coroutine function"),
        ("test_validators:Wrong", "does not take one request"),
        ("test_validators:Good,builtins:dict", "no method validate"),
    ],
)
def test_a_name_that_gives_no_validator_refuses_the_start(name, words):
    with pytest.raises(StartRefused, match=words):
        load_validators(name, Metrics(), lambda: 0.0)


def test_without_access_control_the_setting_refuses_the_start():
    with pytest.raises(StartRefused, match="access_validators needs access control"):
        open_guard(AccessSettings(access_validators="test_validators:Good"), "store", None, None)
