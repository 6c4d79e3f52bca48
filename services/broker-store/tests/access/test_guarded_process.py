"""Real stores with access control on: signed requests pass, others are refused on both ports, and stores follow each other."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time

import pytest
import test_broker_store_process
from test_broker_store_process import SOURCES, Client, Store

from broker_store.process.parts.access_control import OTHERS_SECONDS
from gantry_access.signatures.remoting import sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_guard.door import NOT_READ_YET

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
NAMES_READY = re.compile(r"ready remoting=([\d.]+:\d+)")
NAMESERVER = SOURCES[-1].parents[1] / "nameserver/src"


class Guarded(Client):
    """A client that signs."""

    def asked(self, code: int, fields: dict[str, str], body: bytes = b"", user: str = "", secret: str = ""):
        return self.ask(code, sign(fields, body, user, SigningKey(secret)) if user else fields, body)

    def root(self, code: int, fields: dict[str, str], body: bytes = b""):
        return self.asked(code, fields, body, "root", "root secret")


@pytest.fixture
def settings(tmp_path):
    keys, first = tmp_path / "keys", tmp_path / "first"
    keys.write_text(f"k1 {base64.b64encode(bytes(range(32))).decode()}\n")
    first.write_text('{"username":"root","password":"root secret"}')
    keys.chmod(0o600)
    return [
        f"access_key_file={keys}", f"access_initial_user_file={first}", f"access_audit_file={tmp_path}/audit",
    ]  # fmt: skip


@pytest.fixture
def stores(tmp_path, settings):
    started: list[Store] = []

    def start(name: str = "a", *more: str) -> Store:
        store = Store(tmp_path / name, f"broker_name={name}", *settings, *more)
        started.append(store)
        return store

    yield start
    for store in started:
        store.kill()
        store.drain.join()
        store.process.stderr.close()
    for client in Client.opened:
        client.socket.close()
    Client.opened.clear()


@pytest.fixture
def nameserver(tmp_path, settings):
    chosen = ["port=0", "http_port=0", f"data_dir={tmp_path}/names", settings[0]]
    process = subprocess.Popen(
        [sys.executable, "-m", "nameserver", *[word for one in chosen for word in ("--set", one)]],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*SOURCES, NAMESERVER]))},
    )
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if found := NAMES_READY.search(line):
            break
    else:
        raise AssertionError("".join(lines))
    yield found[1]
    process.kill()
    process.wait()
    process.stderr.close()


def test_only_signed_requests_of_known_users_pass_on_both_ports_and_users_outlive_a_kill(stores, tmp_path):
    store = stores()
    client = Guarded(store.port)
    assert client.root(3001, {"username": "alice"}, b'{"password":"alice secret"}').code == 0
    policy = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}
    body = json.dumps({"policies": [{"entries": [policy]}]}).encode()
    assert client.root(3006, {"subject": "User:alice"}, body).code == 0
    ask = {"topic": "orders", "queueId": "0"}
    for user, secret, remark in (
        ("", "", "username cannot be null."),
        ("alice", "wrong", "check signature failed."),
        ("nobody", "alice secret", "check signature failed."),
    ):
        answer = client.asked(30, ask, b"", user, secret)
        assert (answer.code, answer.remark) == (16, remark)
    answer = client.asked(30, ask, b"", "alice", "alice secret")
    assert answer.code == 16
    assert "User:alice has no permission to access Topic:orders" in answer.remark
    send = {
        "a": "pg", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
        "i": "UNIQ_KEY\x01U1\x02", "j": "0",
    }  # fmt: skip
    assert client.asked(310, send, b"hi", "alice", "alice secret").code == 0
    forged = sign(send, b"hi", "alice", SigningKey("alice secret"))
    assert client.ask(310, forged, b"other").code == 16
    # A thread writes the audit log: what it has not written yet, a kill loses.
    _until(lambda: (tmp_path / "audit.strangers").read_text().count("wrong_signature") == 3, 15)
    _until(lambda: _changes(tmp_path) == ["alice", "alice"], 15)
    store.kill()
    store.drain.join()
    (tmp_path / "first").unlink()
    again = stores()
    client = Guarded(again.port)
    assert client.asked(310, send, b"hi", "alice", "alice secret").code == 0
    assert client.root(3002, {"username": "alice"}, b'{"userStatus":"disable"}').code == 0
    answer = client.asked(310, send, b"hi", "alice", "alice secret")
    assert (answer.code, answer.remark) == (16, "User:alice is disabled.")
    _until(lambda: _changes(tmp_path) == ["alice", "alice", "alice"], 15)
    audit = (tmp_path / "audit").read_text() + (tmp_path / "audit.strangers").read_text()
    assert '"decision":"changed"' in audit
    assert "wrong_signature" in audit
    for secret in ("alice secret", "root secret", "sealed1"):
        assert secret not in audit + "".join(again.lines)


NIGHT = """
class Night:
    def validate(self, asked):
        if any(one.resource.text == "Topic:payroll" for one in asked.required):
            raise ValueError("not at night")
"""


def test_a_validator_narrows_what_a_store_allows(tmp_path, stores, monkeypatch):
    (tmp_path / "night_rules.py").write_text(NIGHT)
    monkeypatch.setattr(test_broker_store_process, "SOURCES", [*SOURCES, tmp_path])
    store = stores("a", "access_validators=night_rules:Night")
    send = {"a": "pg", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "UNIQ_KEY\x01U1\x02", "j": "0"}  # fmt: skip
    client = Guarded(store.port)
    assert client.root(310, {**send, "b": "orders"}, b"hi").code == 0
    answer = client.root(310, {**send, "b": "payroll"}, b"hi")
    assert (answer.code, answer.remark) == (16, "an access validator refused the request.")
    assert store.stop() == 0
    store.drain.join()
    assert '"reason":"validator","rule":"night_rules:Night"' in (tmp_path / "audit").read_text()
    assert any("an access validator failed" in line and "not at night" in line for line in store.lines)


def test_a_change_made_on_one_store_reaches_the_other_within_a_second_and_stays_there(
    stores, nameserver, fair_clock
):
    first, second = (stores(name, f"nameservers={nameserver}") for name in "ab")
    one, other = Guarded(first.port), Guarded(second.port)
    for name, here, there in (("x", one, other), ("y", other, one)):  # until they follow each other
        assert here.root(3001, {"username": name}, b'{"password":"x"}').code == 0
        _until(lambda name=name, there=there: there.root(3004, {"username": name}).body, 60)
    assert one.root(3001, {"username": "alice"}, b'{"password":"alice secret"}').code == 0
    _until(lambda: other.root(3004, {"username": "alice"}).body, 60)
    assert one.root(3002, {"username": "alice"}, b'{"userStatus":"disable"}').code == 0
    begin_s = fair_clock()
    _until(lambda: b"disable" in other.root(3004, {"username": "alice"}).body, 60)
    assert fair_clock() - begin_s < 1
    assert other.root(3002, {"username": "alice"}, b'{"userStatus":"enable"}').code == 0
    begin_s = fair_clock()
    _until(lambda: b"enable" in one.root(3004, {"username": "alice"}).body, 60)
    assert fair_clock() - begin_s < 1
    first.kill()
    second.kill()
    second.drain.join()
    alone = Guarded(stores("b").port)
    assert b"enable" in alone.root(3004, {"username": "alice"}).body


def test_a_store_that_was_away_counts_no_user_or_right_that_was_taken_away_meanwhile(
    stores, nameserver, tmp_path
):
    names = f"nameservers={nameserver}"
    one, away = stores("a", names), stores("b", names)
    client, other = Guarded(one.port), Guarded(away.port)
    assert (
        client.root(3001, {"username": "alice"}, b'{"password":"alice secret","userType":"Super"}').code == 0
    )
    _until(lambda: other.asked(21, {}, b"", "alice", "alice secret").code == 0, 15)
    away.kill()
    away.drain.join()
    assert client.root(3002, {"username": "alice"}, b'{"userStatus":"disable"}').code == 0
    again = Guarded(stores("b", names).port)
    answer = again.asked(21, {}, b"", "alice", "alice secret")
    assert (answer.code, answer.remark) == (16, "User:alice is disabled.")
    # Nor does a store without a log make the first user again that was deleted.
    assert (
        client.root(3001, {"username": "chief"}, b'{"password":"chief secret","userType":"Super"}').code == 0
    )
    assert client.asked(3003, {"username": "root"}, b"", "chief", "chief secret").code == 0
    fresh = Guarded(stores("c", names).port)
    answer = fresh.root(21, {})
    assert (answer.code, answer.remark) == (16, "check signature failed.")
    assert fresh.asked(21, {}, b"", "chief", "chief secret").code == 0


def test_a_store_whose_nameserver_is_away_counts_its_own_users_after_a_bounded_time(stores):
    begin_s = time.monotonic()
    store = stores("a", "nameservers=127.0.0.1:9")
    assert Guarded(store.port).root(21, {}).code == 0
    assert time.monotonic() - begin_s < OTHERS_SECONDS + 60
    assert any("no other store was read" in line for line in store.lines)


def test_a_store_that_stops_before_it_has_read_the_others_makes_no_first_user(tmp_path, settings, stores):
    """Such a user would be newer than its deletion, and so come back on every store."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    chosen = [
        f"store_dir={tmp_path}/a", f"port={port}", "http_port=0", "nameservers=127.0.0.1:9", "broker_name=a", *settings
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "broker_store", *[word for one in chosen for word in ("--set", one)]],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))},
    )
    try:
        _until(lambda: _is_open(port), 60)
        answer = Guarded(port).root(21, {})
        assert (answer.code, answer.remark) == (14, NOT_READ_YET)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    (tmp_path / "first").write_text('{"username":"other","password":"other secret"}')
    again = Guarded(stores("a").port)
    assert again.asked(21, {}, b"", "other", "other secret").code == 0
    assert again.root(21, {}).remark == "check signature failed."


def _changes(directory) -> list[str]:
    """The users and policies whose changes are in the audit log."""
    lines = (directory / "audit").read_text().splitlines()
    found = (json.loads(line) for line in lines if '"decision":"changed"' in line)
    return [one["request"].split()[1] for one in found]


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _until(condition, seconds: float) -> None:
    begin_s = time.monotonic()
    while not condition():
        assert time.monotonic() - begin_s < seconds
        time.sleep(0.005)
