"""The HTTP edge: sizes, compression, ids, token, browsers, limits, metrics, the OpenAPI document and its page."""

from __future__ import annotations

import gzip
import json
import zlib
from email.utils import parsedate_to_datetime

import pytest

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
ONE = {"messages": [{"body": "x"}]}
MIB = 1024 * 1024
RAW = (b"content-type", b"application/octet-stream")


class Wire:
    """An ASGI server of one request, with scripted events and a recorded reply."""

    def __init__(self, *events, headers=(), method="POST", path=ORDERS) -> None:
        self.events, self.sent, self.received = list(events), [], 0
        self.scope = {
            "type": "http", "method": method, "path": path, "query_string": b"", "headers": list(headers),
            "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80), "scheme": "http", "http_version": "1.1", "root_path": "",
        }  # fmt: skip

    async def receive(self):
        self.received += 1
        return self.events.pop(0) if self.events else {"type": "http.disconnect"}

    async def send(self, event):
        self.sent.append({**event, "received": self.received})

    async def run(self, gateway):
        await gateway.app(self.scope, self.receive, self.send)
        body = b"".join(event.get("body", b"") for event in self.sent[1:])
        return self.sent[0]["status"], dict(self.sent[0]["headers"]), json.loads(body)


def chunk(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_request_over_the_limit_is_refused_from_its_length_before_it_is_read_then_dropped(system):
    wire = Wire(
        *[chunk(b"x" * MIB)] * 16,
        chunk(b"x" * MIB, more=False),
        headers=[(b"content-type", b"application/json"), (b"content-length", b"17825792")],
    )
    status, headers, problem = await wire.run(system.gateway())
    assert (status, problem["code"], problem["limit"]) == (413, "REQUEST_TOO_LARGE", "16777216 bytes")
    assert wire.sent[0]["received"] == 0, "the answer leaves before anything is read"
    assert wire.received == 17, "the rest is read and dropped"
    assert headers[b"connection"] == b"close"
    assert [event.get("more_body", False) for event in wire.sent[1:]] == [True, False]


async def test_a_raw_body_over_four_mib_is_413_from_its_length(system):
    wire = Wire(chunk(b"", more=False), headers=[RAW, (b"content-length", str(4 * MIB + 1).encode())])
    status, _headers, problem = await wire.run(system.gateway())
    assert (status, problem["field"], problem["limit"]) == (413, "body", "4194304 bytes")
    assert wire.sent[0]["received"] == 0


async def test_a_chunked_body_over_the_limit_is_413_as_soon_as_it_is_over(system):
    wire = Wire(
        *[chunk(b"x" * MIB)] * 20,
        chunk(b"", more=False),
        headers=[RAW, (b"transfer-encoding", b"chunked")],
    )
    status, headers, _problem = await wire.run(system.gateway())
    assert status == 413
    assert wire.sent[0]["received"] == 5
    assert wire.received == 21
    assert headers[b"connection"] == b"close"


async def test_other_calls_have_the_limit_too(system):
    wire = Wire(
        chunk(b"", more=False),
        headers=[(b"content-length", b"99999999999")],
        method="PUT",
        path="/v1/topics/t",
    )
    status, _headers, problem = await wire.run(system.gateway())
    assert (status, problem["code"]) == (413, "REQUEST_TOO_LARGE")


async def test_dropping_a_body_ends_when_the_client_disconnects(system):
    wire = Wire(chunk(b"x"), headers=[RAW, (b"content-length", b"99999999")])
    status, _headers, _problem = await wire.run(system.gateway())
    assert status == 413
    assert wire.received == 2


async def test_a_message_body_over_four_mib_in_json_is_413_naming_the_message(client):
    body = {"messages": [{"body": "ok"}, {"body": "x" * (4 * MIB + 1)}]}
    answer = await client.post(ORDERS, json=body)
    assert (answer.status_code, answer.json()["field"], answer.json()["limit"]) == (
        413,
        "messages[1].body",
        "4194304 bytes",
    )


async def test_a_message_body_of_exactly_four_mib_is_taken(client):
    assert (await client.post(ORDERS, content=b"x" * (4 * MIB), headers=[RAW])).status_code == 200


async def test_a_client_that_disconnects_within_its_body_stores_nothing(system):
    wire = Wire(chunk(b'{"messages"'), headers=[(b"content-type", b"application/json")])
    gateway = system.gateway()
    await gateway.app(wire.scope, wire.receive, wire.send)
    assert wire.sent == []
    assert not system.stores["broker-a"].queues


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("br", b"x", 415),
        ("gzip", b"no gzip", 400),
        ("gzip", gzip.compress(json.dumps(ONE).encode())[:-9], 400),
        ("gzip", gzip.compress(json.dumps(ONE).encode()) + b"tail", 400),
        ("gzip", gzip.compress(b" " * (17 * MIB)), 413),
        ("identity", json.dumps(ONE).encode(), 200),
    ],
    ids=["unknown", "none", "cut", "tail", "bomb", "identity"],
)
async def test_compressed_requests_have_the_same_limits(client, encoding, body, status):
    headers = {"content-type": "application/json", "content-encoding": encoding}
    assert (await client.post(ORDERS, content=body, headers=headers)).status_code == status


async def test_large_replies_are_compressed_if_the_client_accepts_it(client):
    await client.post(ORDERS, json={"messages": [{"body": "x" * 10_000, "queueId": 0}]})
    path = "/v1/topics/orders/queues/broker-a/0/messages"
    packed = await client.get(path, headers={"accept-encoding": "br, gzip;q=0.5"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < 1000
    assert packed.json()["messages"][0]["body"] == "x" * 10_000
    for refused in ("identity", "gzip;q=0", ""):
        plain = await client.get(path, headers={"accept-encoding": refused})
        assert "content-encoding" not in plain.headers
        assert plain.headers["vary"] == "accept-encoding"
    large = {"messages": [{"body": "y" * 200_000, "queueId": 1}]}
    await client.post(ORDERS, json=large)
    threaded = await client.get(path.replace("/0/", "/1/"), headers={"accept-encoding": "gzip"})
    assert threaded.json()["messages"][0]["body"] == "y" * 200_000


async def test_a_usable_request_id_comes_back_and_any_other_is_replaced(client):
    kept = await client.post(ORDERS, json=ONE, headers={"x-request-id": "abc-1.~_"})
    assert kept.headers["x-request-id"] == "abc-1.~_"
    assert parsedate_to_datetime(kept.headers["date"]).tzinfo is not None
    for unusable in ("", "a b", "x" * 129, "a\u00e9"):
        made = await client.get("/v1/topics", headers={b"x-request-id": unusable.encode("latin-1")})
        assert made.headers["x-request-id"].startswith("request-")


async def test_with_a_token_only_probes_and_the_description_are_open(system, connect):
    async with connect(system.gateway(token="s3cret")) as client:
        for path in ("/health/live", "/health/ready", "/docs", "/openapi.json"):
            assert (await client.get(path)).status_code == 200
        for given in (
            {},
            {"authorization": "Bearer no"},
            {"authorization": "Basic s3cret"},
            {"authorization": "s3cret"},
        ):
            for method, path in (
                ("POST", ORDERS),
                ("GET", "/v1/topics"),
                ("GET", "/metrics"),
                ("GET", "/nothing"),
            ):
                answer = await client.request(
                    method, path, headers=given, json=ONE if method == "POST" else None
                )
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert "s3cret" not in answer.text
        good = {"authorization": "bearer s3cret"}
        assert (await client.post(ORDERS, json=ONE, headers=good)).status_code == 200
        described = (await client.get("/openapi.json")).json()
        assert described["security"] == [{"bearer": []}]


async def test_browsers_of_a_set_origin_may_call_and_others_may_not(system, connect):
    async with connect(
        system.gateway(cors_origins="https://shop.example, https://b.example", token="t")
    ) as client:
        asked = {
            "origin": "https://shop.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        }
        preflight = await client.options(ORDERS, headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
        assert preflight.headers["access-control-allow-headers"] == "content-type"
        described = (await client.get("/openapi.json")).json()["paths"]
        used = {method.upper() for path in described.values() for method in path if method != "parameters"}
        assert used <= set(preflight.headers["access-control-allow-methods"].split(", "))
        refused = await client.get("/v1/topics", headers={"origin": "https://shop.example"})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (
            401,
            "https://shop.example",
        )
        foreign = await client.get("/health/live", headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert "access-control-allow-origin" not in foreign.headers
        assert foreign.headers["vary"] == "origin"


async def test_without_the_setting_no_browser_is_let_in(client):
    answer = await client.get("/v1/topics", headers={"origin": "https://shop.example"})
    assert "access-control-allow-origin" not in answer.headers


async def test_a_rate_limit_answers_429_with_the_time_to_wait(system, connect):
    import gateway_memory

    limits = gateway_memory.MemoryLimits()
    async with connect(system.gateway(limits)) as client:
        await client.post(ORDERS, json={"messages": [{"body": "x"}] * 3})
        await client.get("/v1/topics/orders/queues/broker-a/0/messages")
        await client.get("/v1/topics")
        assert limits.taken == [("127.0.0.1", "orders", 3), ("127.0.0.1", "", 1), ("127.0.0.1", "", 1)]
        limits.wait_ms = 1500
        for method, path in (
            ("POST", ORDERS),
            ("GET", "/v1/topics"),
            ("GET", "/v1/topics/orders/queues/broker-a/0/messages"),
        ):
            answer = await client.request(method, path, json=ONE if method == "POST" else None)
            assert (answer.status_code, answer.json()["code"], answer.json()["retryAfterMs"]) == (
                429,
                "RATE_LIMITED",
                1500,
            )
            assert answer.headers["retry-after"] == "2"
        assert (await client.get("/health/live")).status_code == 200


async def test_metrics_count_messages_and_calls_by_route(client):
    await client.post(ORDERS, json={"messages": [{"body": "x"}] * 3})
    await client.get("/v1/topics/orders")
    await client.get("/v1/topics/none")
    await client.get("/nowhere")
    text = (await client.get("/metrics")).text
    assert 'gateway_calls_total{route="send",status="200"} 1.0' in text
    assert 'gateway_calls_total{route="/v1/topics/{topic}",status="404"} 1.0' in text
    assert 'gateway_calls_total{route="none",status="404"} 1.0' in text
    assert "gateway_messages_sent_total 3.0" in text


async def test_load_balancers_may_ask_for_the_health_with_head(client):
    for path in ("/health/live", "/health/ready"):
        assert (await client.head(path)).status_code == (await client.get(path)).status_code == 200


async def test_the_api_page_loads_nothing_from_other_hosts(client):
    page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "openapi.json" in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "//cdn" not in page.text


async def test_a_browser_finds_a_page_at_the_root_and_a_program_a_problem(system, connect):
    browser = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    async with connect(system.gateway(token="t")) as client:
        page = await client.get("/", headers=browser)
        assert (page.status_code, page.headers["vary"]) == (200, "accept")
        assert page.headers["content-type"].startswith("text/html")
        for link in ("docs", "openapi.json", "health/ready", "v1/reports"):
            assert f'href="{link}"' in page.text
        assert "//" not in page.text
        for headers in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
            answer = await client.get("/", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
            assert "/docs" in answer.json()["detail"]


async def test_every_json_reply_ends_with_a_newline(client):
    described = (await client.get("/openapi.json")).json()["paths"]
    calls = [
        (method, path) for path, calls in described.items() for method in calls if method != "parameters"
    ]
    calls += [("get", "/"), ("get", "/nothing"), ("put", "/docs"), ("get", "/openapi.json")]
    statuses = set()
    for method, path in calls:
        url = path.replace("{topic}", "orders").replace("{group}", "g1").replace("{broker}", "broker-a")
        for body in (ONE, {}, None):
            answer = await client.request(method, url.replace("{queueId}", "0"), json=body)
            statuses.add(answer.status_code)
            if "json" in answer.headers["content-type"]:
                assert answer.content.endswith(b"}\n"), (method, path, answer.content[-50:])
                assert answer.content.count(b"\n") == 1
                if "content-encoding" not in answer.headers:
                    assert int(answer.headers["content-length"]) == len(answer.content)
    assert {200, 400, 404, 405} <= statuses


async def test_the_description_names_every_route_of_the_router(system):
    app = system.gateway().app
    described = app.openapi()["paths"]
    assert {"post"} == set(described[ORDERS.replace("orders", "{topic}")])
    for path, calls in described.items():
        for method, call in calls.items():
            assert call["responses"], (method, path)
            for status, answer in call["responses"].items():
                problem_only = set(answer.get("content", {})) == {"application/problem+json"}
                assert problem_only or not status.startswith(("4", "5")) or path == "/health/ready", (
                    path,
                    status,
                )
                assert "X-Request-Id" in answer["headers"]
    text = json.dumps(app.openapi())
    schemas = app.openapi()["components"]["schemas"]
    for reference in text.split("#/components/schemas/")[1:]:
        assert reference.split('"')[0] in schemas


def test_gzip_of_replies_is_real_gzip():
    from gateway.http.call import _gzip

    assert zlib.decompress(_gzip(b"abc" * 1000), 31) == b"abc" * 1000


async def test_memory_is_returned_after_large_requests_and_replies(system, connect, monkeypatch):
    gateway = system.gateway()
    noted = []
    monkeypatch.setattr(gateway.app.large, "had", noted.append)
    async with connect(gateway) as client:
        big = {"messages": [{"body": "x" * MIB, "queueId": 0, "broker": "broker-a"}]}
        assert (await client.post(ORDERS, json=big)).status_code == 200
        assert noted[-1] > MIB
        packed = gzip.compress(json.dumps(big).encode())
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        assert (await client.post(ORDERS, content=packed, headers=headers)).status_code == 200
        assert noted[-1] > MIB
        assert (await client.get("/v1/topics/orders/queues/broker-a/0/messages")).status_code == 200
        assert noted[-1] > 2 * MIB
        assert (await client.get("/health/live")).status_code == 200
        assert noted[-1] < 1000
