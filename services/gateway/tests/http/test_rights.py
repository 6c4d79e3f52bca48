"""With access control every route needs a proven user that has its rights; records are decided once their topic is known."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from gateway_guarded import SETTINGS, Access, basic, by
from gateway_memory import MemorySystem

from gantry_access.entries.entry import Kind
from gantry_access.model.users import UserStatus, UserType
from gantry_access.rights import http_table
from gantry_chassis.metrics import Metrics
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.validators import Validators
from gateway.http.access import OPEN_PATHS

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
ONE = {"messages": [{"body": "x"}]}
PLACES = {
    "{topic}": "orders", "{group}": "g1", "{broker}": "broker-a", "{queueId}": "0", "{id}": "broker-a.17", "{name}": "somebody",
    "{path}": "report.html", "{subject}": "somebody",
}  # fmt: skip
BODIES = {
    "/v1/groups/{group}/offsets": {
        "offsets": [{"topic": "orders", "broker": "broker-a", "queueId": 0, "offset": 1}]
    },
    "/v1/groups/{group}/offsets:reset": {"topic": "orders", "to": "earliest"},
    "/v1/groups/{group}/deadLetters:redrive": {"toTopic": "orders"},
    "/v1/definitions": {"topics": [{"topic": "orders"}]},
    "/v1/tokens": {"user": "somebody"},
    "/v1/schedules:bulkCancel": {"key": "k"},
    "/v1/schedules:bulkMove": {"key": "k", "shiftMs": 1},
}
QUERIES = {"/v1/messages": "?topic=orders"}
OF_RECORD = {
    "/v1/messages/{id}", "/v1/messages/{id}/timeline", "/v1/schedules/{id}", "/v1/schedules/{id}:deliverNow", "/v1/parked/{id}:resend",
    "/v1/transactions/{id}", "/v1/transactions/{id}:commit", "/v1/transactions/{id}:rollback",
}  # fmt: skip
ANY_USER = {"/v1/access:whoami", "/v1/access:explain", "/v1/producerGroups/{group}/checks:receive"}
"""Need no right by themselves; the tests below decide about what they show."""


@pytest.fixture
def access(anyio_backend):
    return Access()


@pytest.fixture
async def http(system, access, connect):
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as client:
        yield client


def routes():
    gateway = MemorySystem().gateway()
    return [one.route for one in gateway.app._router.operations]


def filled(template: str) -> str:
    for place, value in PLACES.items():
        template = template.replace(place, value)
    assert "{" not in template
    return template


GUARDED = [(method, path) for method, path in routes() if path not in OPEN_PATHS]


async def call(http, method, template, header=None):
    body = json.dumps(BODIES.get(template, {})) if method in ("POST", "PUT", "PATCH") else None
    headers = {"content-type": "application/json"} | (by(header) if header else {})
    path = filled(template) + QUERIES.get(template, "")
    return await http.request(method, path, content=body, headers=headers)


async def test_all_routes_are_among_these():
    assert len(GUARDED) > 60
    assert {path for _method, path in GUARDED} >= OF_RECORD | ANY_USER | set(BODIES)


@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_nobody_gets_401_and_how_to_log_in(http, access, method, path):
    answer = await call(http, method, path)
    assert answer.status_code == 401
    assert answer.json()["code"] == "UNAUTHORIZED"
    assert answer.headers.get_list("www-authenticate") == [
        'Bearer realm="gantry"',
        'Basic realm="gantry", charset="UTF-8"',
    ]
    assert [reason for _asked, reason in access.audit.denied] == ["no_credentials"]
    assert access.audit.admitted == []


@pytest.mark.parametrize(("method", "path"), [one for one in GUARDED if one[1] not in ANY_USER])
async def test_a_user_without_rights_gets_403_in_rocketmqs_words(http, access, method, path):
    answer = await call(http, method, path, access.user("nobody"))
    assert (answer.status_code, answer.json()["code"]) == (403, "NO_PERMISSION")
    assert re.fullmatch(
        r"User:nobody has no permission to access \S+ from 127\.0\.0\.1, no matched policies\.",
        answer.json()["detail"],
    )


@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_a_super_user_gets_neither_401_nor_403(http, access, method, path):
    answer = await call(http, method, path, access.user("root", kind=UserType.SUPER))
    assert answer.status_code not in (401, 403)


@pytest.mark.parametrize("path", OPEN_PATHS)
async def test_an_open_path_needs_no_user(http, path):
    assert (await http.get(path, headers={"accept": "text/html"})).status_code not in (401, 403)


class NotTonight:
    """A validator that lets a number of requests pass, and then fails."""

    def __init__(self, passes):
        self.passes, self.asked = passes, []

    def validate(self, asked):
        self.asked.append((asked.user, asked.request))
        if len(self.asked) > self.passes:
            raise ValueError("it is dark")


async def test_a_validator_is_asked_about_each_call_and_its_exception_refuses(system, connect):
    validator = NotTonight(3)
    validators = Validators([("night", validator)], Metrics(), lambda: 0.0)
    access = Access(validators=validators)
    root = by(access.user("root", kind=UserType.SUPER))
    path, body = "/v1/topics/orders/messages", {"messages": [{"body": "m"}]}
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as http:
        answers = [await http.post(path, json=body, headers=root) for _ in range(5)]
        assert (await http.post(path, json=body)).status_code == 401
        assert (await http.get("/health/live")).status_code == 200
    assert [answer.status_code for answer in answers] == [200, 200, 200, 403, 403]
    shown = answers[-1].json()
    assert (shown["code"], shown["detail"]) == ("NO_PERMISSION", "an access validator refused the request.")
    assert validator.asked == [("root", "POST /v1/topics/{topic}/messages")] * 5
    assert [reason for _asked, reason in access.audit.denied] == ["validator", "validator", "no_credentials"]


async def test_a_route_without_a_row_refuses_the_start(system, access, monkeypatch):
    rows = {route: row for route, row in http_table.GATEWAY.items() if route != ("GET", "/v1/topics")}
    monkeypatch.setattr(http_table, "GATEWAY", rows)
    with pytest.raises(StartRefused, match="no row of rights for GET /v1/topics: "):
        system.gateway(access_parts=access.parts, **SETTINGS)


async def test_only_users_learn_which_paths_and_methods_there_are(http, access):
    header = by(access.user("nobody"))
    for method, path, status in (("GET", "/v1/nothing", 404), ("DELETE", "/v1/topics", 405)):
        assert (await http.request(method, path)).status_code == 401
        assert (await http.request(method, path, headers=header)).status_code == status


async def test_an_unknown_user_and_a_wrong_secret_get_one_text(http, access):
    access.user("alice", "Allow All *")
    answers = [
        await http.get("/v1/topics", headers=by(header))
        for header in (basic("alice", "wrong"), basic("nobody", "wrong"), "Bearer gantry_" + "0" * 49)
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.json()["detail"] for answer in answers}) == 1
    assert len({str(answer.headers.get_list("www-authenticate")) for answer in answers}) == 1
    assert [reason for _asked, reason in access.audit.denied] == [
        "wrong_secret",
        "wrong_secret",
        "wrong_token",
    ]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !",
        "Basic YWxpY2U=",
        "Basic OnNlY3JldA==",
        "Basic /w==",
        "Digest x",
        "Bearer",
        "Bearer é",
        "x" * 20_000,
    ],
)
async def test_a_header_that_is_no_credentials_is_401(http, header):
    answer = await http.get("/v1/topics", headers={"authorization": header.encode("latin-1")})
    assert answer.status_code == 401


async def test_a_disabled_and_an_expired_user_are_refused_after_their_proof(http, access):
    disabled = access.user("off", "Allow All *", status=UserStatus.DISABLE)
    expired = access.user("old", "Allow All *", expires_ms=access.now_ms)
    for header, words in ((disabled, "User:off is disabled."), (expired, "User:old has expired.")):
        answer = await http.get("/v1/topics", headers=by(header))
        assert (answer.status_code, answer.json()["detail"]) == (403, words)


async def test_rights_are_those_of_the_route_and_of_the_body(http, access):
    header = by(access.user("alice", "Allow Pub Topic:orders", "Allow Update Group:g1"))
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 200
    assert (await http.get("/v1/topics/orders", headers=header)).status_code == 403
    reset = {"topic": "orders", "to": "earliest"}
    answer = await http.post("/v1/groups/g1/offsets:reset", json=reset, headers=header)
    assert "Topic:orders" in answer.json()["detail"]
    access.policies("alice", "Allow Update Topic:orders", "Allow Update Group:g1")
    assert (await http.post("/v1/groups/g1/offsets:reset", json=reset, headers=header)).status_code == 200


async def test_a_body_that_cannot_be_read_for_rights_is_400_for_a_user_and_401_for_nobody(http, access):
    header = by(access.user("root", kind=UserType.SUPER)) | {"content-type": "application/json"}
    path = "/v1/groups/g1/offsets:reset"
    assert (await http.post(path, content=b"{", headers=header)).status_code == 400
    assert (await http.post(path, content=b"{")).status_code == 401


async def test_a_name_that_rights_need_and_that_x(http, access):
    header = by(access.user("root", kind=UserType.SUPER))
    answer = await http.get("/v1/messages", headers=header)
    assert (answer.status_code, answer.json()["detail"]) == (403, "topic is null.")
    assert (await http.get("/v1/messages")).status_code == 401


async def test_a_body_with_too_many_values_is_refused_before_its_rights_are_read(http, access):
    header = by(access.user("root", kind=UserType.SUPER)) | {"content-type": "application/json"}
    body = b'{"offsets":[' + b",".join([b"{}"] * 400_000) + b"]}"
    answer = await http.put("/v1/groups/g1/offsets", content=body, headers=header)
    assert (answer.status_code, answer.json()["field"]) == (400, "offsets")


async def test_a_query_names_the_topic_that_is_decided(http, access):
    header = by(access.user("alice", "Allow Get Topic:orders", "Allow Get Group:g1"))
    assert (await http.get("/v1/schedules?topic=orders", headers=header)).status_code == 200
    assert (await http.get("/v1/schedules", headers=header)).status_code == 403
    assert (await http.get("/v1/schedules?topic=", headers=header)).status_code == 403
    assert (await http.get("/v1/schedules?topic=orders&topic=other", headers=header)).status_code == 400
    assert (await http.get("/v1/groups/g1/lag?topic=other", headers=header)).status_code == 403


async def test_networks_of_policies_are_those_of_the_client(http, access):
    header = by(access.user("alice", "Allow Pub Topic:orders 10.0.0.0/8"))
    refused = await http.post(ORDERS, json=ONE, headers=header)
    assert refused.json()["detail"].endswith("from 127.0.0.1, no matched policies.")
    access.policies("alice", "Allow Pub Topic:orders 127.0.0.0/8")
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 200


# Tokens


async def test_a_token_has_its_scope_of_the_rights_of_its_user_until_it_ends(http, access):
    access.user("alice", "Allow Pub/Get Topic:orders")
    header = by(access.token("alice", "Pub Topic:orders", "Sub Topic:*"))
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 200
    outside = await http.get("/v1/topics/orders", headers=header)
    assert (outside.status_code, outside.json()["detail"]) == (
        403,
        "the scope of the token t1 does not cover Get on Topic:orders.",
    )
    beyond = await http.get("/v1/messages?topic=orders", headers=header)
    assert beyond.status_code == 200  # Get of the user and Sub of the scope are alternatives of one need
    access.now_ms += 60_000
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 401


@pytest.mark.parametrize("gone", [(Kind.TOKEN, "t1"), (Kind.USER, "alice")])
async def test_a_token_that_was_revoked_or_lost_its_user_is_refused_at_once(http, access, gone):
    access.user("alice", "Allow Pub Topic:orders")
    header = by(access.token("alice"))
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 200
    access.delete(*gone)
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 401


async def test_both_secrets_of_a_rotation_are_valid(http, access):
    first = access.user("alice", "Allow Pub Topic:orders")
    sealed = access.table.state.find("alice").user.secrets
    second = access.user("alice", "Allow Pub Topic:orders", secret="other-of-")
    for header, status in ((first, 401), (second, 200)):
        assert (await http.post(ORDERS, json=ONE, headers=by(header))).status_code == status
    from dataclasses import replace

    from gantry_access.entries.contents import user_entry

    user = access.table.state.find("alice").user
    access.take(user_entry(replace(user, secrets=(*sealed, *user.secrets)), access.stamp(Kind.USER, "alice")))
    for header in (first, second):
        assert (await http.post(ORDERS, json=ONE, headers=by(header))).status_code == 200


async def test_guessing_is_paused_for_the_guesser_and_for_nobody_else(http, access):
    good, other = access.user("alice", "Allow Pub Topic:orders"), access.user("bob", "Allow Pub Topic:orders")
    assert (await http.post(ORDERS, json=ONE, headers=by(good))).status_code == 200
    for number in range(20):
        answer = await http.post(ORDERS, json=ONE, headers=by(basic("alice", f"guess {number}")))
        assert answer.status_code == 401
    assert ("alice", "too_many_failures") in {(asked.user, reason) for asked, reason in access.audit.denied}
    assert (await http.post(ORDERS, json=ONE, headers=by(other))).status_code == 200
    assert (await http.post(ORDERS, json=ONE, headers=by(good))).status_code == 200, "it was verified before"


async def test_before_the_users_were_read_calls_are_503_and_the_gateway_is_not_ready(http, access):
    header = by(access.user("alice", "Allow Pub Topic:orders"))
    access.table.is_complete = False
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 503
    ready = await http.get("/health/ready")
    assert (ready.status_code, ready.json()["stores"]) == (
        503,
        {"*": "access control has not read its users yet"},
    )
    assert (await http.get("/health/live")).status_code == 200
    access.table.is_complete = True
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 200
    assert (await http.get("/health/ready")).status_code == 200


async def test_the_token_of_the_settings_is_no_user(system, connect, access):
    with pytest.raises(Exception, match="token and access_key_file are both set"):
        system.gateway(access_parts=access.parts, token="s3cret", **SETTINGS)


async def test_the_description_names_both_ways_to_log_in(http):
    described = (await http.get("/openapi.json")).json()
    assert described["security"] == [{"bearer": []}, {"basic": []}]
    assert set(described["components"]["securitySchemes"]) == {"bearer", "basic"}


# Records


async def sent(http, access, topic="orders", **fields):
    root = by(access.user("root", kind=UserType.SUPER))
    body = {"messages": [{"body": "hidden", "queueId": 0, **fields}]}
    answer = await http.post(f"/v1/topics/{topic}/messages", json=body, headers=root)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]


async def test_a_message_by_id_needs_the_right_on_its_own_topic(http, system, access):
    system.add_topic("billing")
    found = await sent(http, access)
    path = f"/v1/messages/{found['offsetMessageId']}"
    reader = by(access.user("reader", "Allow Get Topic:orders"))
    other = by(access.user("other", "Allow Get Topic:billing"))
    for tail in ("", "/timeline"):
        assert (await http.get(path + tail, headers=reader)).status_code == 200
        refused = await http.get(path + tail, headers=other)
        assert (refused.status_code, refused.json()["detail"]) == (
            403,
            "User:other has no permission to access Topic:* from 127.0.0.1, no matched policies.",
        )
        assert "hidden" not in refused.text
        assert "orders" not in refused.text
        named = await http.get(f"{path}{tail}?topic=billing", headers=other)
        assert named.status_code == 404, "a message of another topic is not in the named one"
    by_unique_id = f"/v1/messages/{found['messageId']}?topic=orders"
    assert (await http.get(by_unique_id, headers=reader)).status_code == 200
    assert (await http.get(by_unique_id, headers=other)).status_code == 403


async def test_who_may_not_see_all_topics_does_not_learn_which_ids_exist(http, access):
    found = await sent(http, access)
    missing = f"/v1/messages/{found['offsetMessageId'][:-2]}FF"
    nobody, all_of = access.user("nobody"), access.user("auditor", "Allow Get Topic:*")
    refused = await http.get(missing, headers=by(nobody))
    assert refused.status_code == 403
    there = await http.get(f"/v1/messages/{found['offsetMessageId']}", headers=by(nobody))
    assert (there.status_code, there.json()["detail"]) == (403, refused.json()["detail"])
    assert (await http.get(missing, headers=by(all_of))).status_code == 404


async def test_a_schedule_is_changed_with_the_right_on_the_named_topic_or_on_all(http, system, access):
    schedules = system.schedulers.one
    schedules.add("m1")
    orders = by(access.user("orders", "Allow Pub Topic:orders"))
    everything = by(access.user("everything", "Allow Pub Topic:*"))
    assert (await http.delete("/v1/schedules/m1", headers=orders)).status_code == 403
    assert (await http.delete("/v1/schedules/m1?topic=billing", headers=orders)).status_code == 403
    assert [name for name, _order in schedules.calls] == [], "nobody asked the scheduler"
    assert (await http.delete("/v1/schedules/m1?topic=orders", headers=orders)).status_code == 200
    assert schedules.calls[-1][1].topic == "orders", "the scheduler looks in that topic only"
    schedules.add("m2")
    assert (await http.delete("/v1/schedules/m2", headers=everything)).status_code == 200


async def test_a_transaction_is_shown_and_decided_with_the_right_on_its_topic(http, system, access):
    root = by(access.user("root", kind=UserType.SUPER))
    begin = {"producerGroup": "shop", "message": {"body": "half"}}
    made = (await http.post("/v1/topics/orders/transactions", json=begin, headers=root)).json()
    path = f"/v1/transactions/{made['transactionId']}"
    other, owner = (
        by(access.user("other", "Allow Pub Topic:billing")),
        by(access.user("owner", "Allow Pub Topic:orders")),
    )
    for method, tail in (("GET", ""), ("POST", ":commit"), ("POST", ":rollback")):
        refused = await http.request(method, path + tail, headers=other)
        assert (refused.status_code, "Topic:orders" in refused.text, "Topic:*" in refused.text) == (
            403,
            False,
            True,
        )
    shown = await http.get(path, headers=owner)
    assert (shown.status_code, shown.json()["state"]) == (200, "open"), "nothing was decided"
    assert (await http.post(f"{path}:commit", headers=owner)).status_code == 200


async def test_checks_of_other_topics_are_left_out(http, system, access):
    root = by(access.user("root", kind=UserType.SUPER))
    system.add_topic("billing")
    keys = {}
    for topic in ("orders", "billing"):
        begin = {"producerGroup": "shop", "message": {"body": f"half of {topic}"}}
        made = (await http.post(f"/v1/topics/{topic}/transactions", json=begin, headers=root)).json()
        keys[topic] = made["messageId"]
        system.transactions.checker.ask(made["broker"], made["messageId"])
    path = "/v1/producerGroups/shop/checks:receive"
    owner, nobody = by(access.user("owner", "Allow Pub Topic:orders")), by(access.user("nobody"))
    shown = (await http.post(path, headers=owner)).json()["checks"]
    assert [one["message"]["topic"] for one in shown] == ["orders"]
    assert (await http.post(path, headers=nobody)).status_code == 403
    assert system.transactions.checker.returned == [keys["orders"]], "no turn of another topic was taken"
    assert len((await http.post(path, headers=root)).json()["checks"]) == 2
    system.transactions.checker.is_old = True
    shown = (await http.post(path, headers=owner)).json()["checks"]
    assert [one["message"]["topic"] for one in shown] == ["orders"]
    assert (await http.post(path, headers=nobody)).status_code == 403


async def test_a_check_that_comes_during_a_hold_is_returned_if_its_topic_may_be_decided(http, system, access):
    root = by(access.user("root", kind=UserType.SUPER))
    owner = by(access.user("owner", "Allow Pub Topic:orders"))
    system.add_topic("billing")
    path = "/v1/producerGroups/shop/checks:receive"

    async def ask(topic):
        begin = {"producerGroup": "shop", "message": {"body": "half"}}
        made = (await http.post(f"/v1/topics/{topic}/transactions", json=begin, headers=root)).json()
        system.transactions.checker.ask(made["broker"], made["messageId"])

    await ask("orders")
    first = await http.post(path, headers=owner)
    assert len(first.json()["checks"]) == 1
    system.transactions.checker.due.clear()
    held = asyncio.ensure_future(http.post(path, headers=owner, json={"waitSeconds": 30}))
    await asyncio.sleep(0.1)
    assert not held.done()
    await ask("orders")
    await ask("billing")
    shown = (await asyncio.wait_for(held, 20)).json()["checks"]
    assert [one["message"]["topic"] for one in shown] == ["orders"]
