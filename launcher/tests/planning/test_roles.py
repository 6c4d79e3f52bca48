"""Who leads a broker, from what its replicas answer: late, wrong, contradicting or not at all."""

import json
import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from gantry_launcher.output.replica_lines import lines_of
from gantry_launcher.planning.health import Check, ask
from gantry_launcher.planning.roles import PATH, View, add_roles, read_view, view_of

ANSWER: dict[str, Any] = json.loads("""
{"group":"broker-a","name":"a","role":"leader","epoch":3,"version":7,"leader":"a","members":["a","b","c"],"minInSync":2,
 "confirmOffset":5000,"endOffset":5120,"isServing":true,"acceptsSends":true,"hasLease":true,"registerFault":"",
 "replicas":[{"name":"b","address":"127.0.0.1:10941","endOffset":5120,"behindBytes":0,"behindMs":0,"isInSync":true},
             {"name":"c","address":"127.0.0.1:10971","endOffset":4000,"behindBytes":1120,"behindMs":40,"isInSync":false}]}
""")
FOLLOWER: dict[str, Any] = {**ANSWER, "name": "b", "role": "follower", "replicas": []}


def broker() -> dict[str, Any]:
    """As the plan lists it."""
    replicas = [
        {"name": name, "process": f"broker-a-{name}", "address": f"127.0.0.1:{port}", "http": f"http://{name}", "pid": port, "store": f"/d/{name}"}
        for name, port in (("a", 10911), ("b", 10941), ("c", 10971))
    ]  # fmt: skip
    first = {key: value for key, value in replicas[0].items() if key not in {"name", "process"}}
    return {"name": "broker-a", **first, "replicas": replicas}


def with_roles(**views: View | None) -> dict[str, Any]:
    one = broker()
    add_roles([one], {f"broker-a-{name}": view for name, view in views.items()})
    return one


def roles(one: dict[str, Any]) -> list[tuple[str, int | None, int | None]]:
    return [(each["role"], each["epoch"], each["behindBytes"]) for each in one["replicas"]]


def test_an_answer_of_the_contract_is_read() -> None:
    assert read_view(ANSWER) == View("leader", 3, "", {"b": 0, "c": 1120})
    assert read_view(FOLLOWER) == View("follower", 3, "", {})
    assert read_view({**FOLLOWER, "isFit": False, "lostBytes": 512}) == View(
        "follower", 3, "", {}, False, 512
    )


def test_a_replica_that_is_not_fit_to_lead_is_marked() -> None:
    views = {
        "a": read_view(ANSWER),
        "b": read_view({**FOLLOWER, "isFit": False, "lostBytes": 512}),
        "c": None,
    }
    one = with_roles(**views)
    shown = [(each["isFit"], each["lostBytes"]) for each in one["replicas"]]
    assert shown == [(None, 0), (False, 512), (None, None)]
    marked = [line.endswith("not fit to lead") for line in lines_of(one)[1:]]
    assert marked == [False, True, False]


@pytest.mark.parametrize(
    "body",
    [{}, {"role": ""}, {"role": "leader"}, {"role": "leader", "epoch": "3"}, {**ANSWER, "registerFault": 1}],
)
def test_what_is_no_answer_is_none(body: dict[str, Any]) -> None:
    assert read_view(body) is None


@pytest.mark.parametrize("listed", [None, 1, [1], [{}], [{"name": "b"}], [{"name": "b", "behindBytes": "x"}]])
def test_a_leader_that_knows_nothing_of_the_others_still_leads(listed: object) -> None:
    view = read_view({**ANSWER, "replicas": listed})
    assert view is not None
    assert (view.role, view.behind_bytes) == ("leader", {})


def test_the_leader_says_how_far_the_others_are_behind() -> None:
    one = with_roles(a=read_view(ANSWER), b=read_view(FOLLOWER), c=View("learner", 3, "", {}))
    assert roles(one) == [("leader", 3, 0), ("follower", 3, 0), ("learner", 3, 1120)]
    assert (one["leader"], one["registerFault"]) == ("a", "")


def test_the_broker_is_where_its_leader_is() -> None:
    one = with_roles(a=View("follower", 4, "", {}), b=View("leader", 4, "", {"a": 5}), c=None)
    assert [one[key] for key in ("address", "http", "pid", "store")] == ["127.0.0.1:10941", "http://b", 10941, "/d/b"]  # fmt: skip
    assert roles(one) == [("follower", 4, 5), ("leader", 4, 0), ("unknown", None, None)]


def test_of_two_leaders_the_later_epoch_counts() -> None:
    one = with_roles(a=View("leader", 3, "", {"b": 9}), b=View("leader", 4, "", {"a": 7}), c=None)
    assert one["leader"] == "b"
    assert roles(one) == [("leader", 3, 7), ("leader", 4, 0), ("unknown", None, None)]


def test_without_answers_nobody_leads_and_the_place_is_that_of_the_first() -> None:
    one = with_roles(a=None, b=None, c=None)
    assert (one["leader"], one["address"]) == (None, "127.0.0.1:10911")
    assert roles(one) == [("unknown", None, None)] * 3
    assert lines_of(one)[0] == "broker-a: no replica is known to lead"


def test_a_register_that_is_away_is_said_by_the_leader_or_else_by_anybody() -> None:
    away = "no NATS server was reached in time"
    assert with_roles(a=None, b=View("follower", 1, away, {}), c=None)["registerFault"] == away
    one = with_roles(
        a=View("follower", 1, "other words", {}), b=View("leader", 1, away, {}), c=View("follower", 1, "", {})
    )
    assert one["registerFault"] == away
    assert lines_of(one)[0] == f"broker-a: b leads; no answer of its register: {away}"


def test_a_broker_without_replicas_gets_nothing() -> None:
    one = {"name": "broker-a", "address": "127.0.0.1:10911"}
    add_roles([one], {})
    assert one == {"name": "broker-a", "address": "127.0.0.1:10911"}
    assert lines_of(one) == []


def test_a_line_for_each_replica() -> None:
    one = with_roles(a=read_view(ANSWER), b=read_view(FOLLOWER), c=None)
    assert lines_of(one) == [
        "broker-a: a leads",
        "  a  leader    epoch 3    127.0.0.1:10911",
        "  b  follower  epoch 3    127.0.0.1:10941         behind by 0 bytes",
        "  c  unknown   epoch -    127.0.0.1:10971         behind by 1120 bytes",
    ]


class Answers(BaseHTTPRequestHandler):
    """Answers like a store's HTTP port."""

    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}

    def do_GET(self) -> None:
        status, body = self.answers.get(self.path, (404, b'{"role": "leader", "epoch": 1}'))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Keep the output of tests clean."""


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(Answers, "answers", {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "is_known"),
    [
        ((200, json.dumps(ANSWER).encode()), True),
        ((404, json.dumps(ANSWER).encode()), False),
        ((200, b"[]"), False),
        ((200, b"{"), False),
        ((200, b"\xff"), False),
        ((200, b""), False),
    ],
)
def test_a_store_is_asked_on_its_http_port(port: int, answer: tuple[int, bytes], is_known: bool) -> None:
    Answers.answers["/v1/replication"] = answer
    assert (view_of(Check("http", "127.0.0.1", port), 30) is not None) == is_known


def test_a_store_that_speaks_tls_alone_is_asked_over_tls_once_its_health_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: Any
) -> None:
    issued = authority.issue(["localhost"])
    (tmp_path / "server.pem").write_bytes(issued.certificate + issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    monkeypatch.setattr(
        Answers, "answers", {PATH: (200, json.dumps(ANSWER).encode()), "/health/ready": (200, b"{}")}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    check = Check("http", "127.0.0.1", server.server_port)
    try:
        assert ask(check, 30).ready
        assert view_of(check, 30) == View("leader", 3, "", {"b": 0, "c": 1120})
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_store_that_is_down_or_silent_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert view_of(Check("http", "127.0.0.1", silent.getsockname()[1]), 0.05) is None
        closed = silent.getsockname()[1]
    assert view_of(Check("http", "127.0.0.1", closed), 0.05) is None
