"""The permissive mode: what would be refused is noted and handled, except what is about users, policies and tokens themselves."""

import json

import pytest
from guarded import Guarded, connected, introducer_of, serving, signed, table
from test_door import MAY_SEND, SEND
from test_following import Following, Store, until, users
from test_http_door import asks, made, of
from test_inner_door import LIST, Listening

from gantry_access.model.users import UserType
from gantry_access.rights.http_table import ABOUT_ACCESS as ROUTES_ABOUT_ACCESS
from gantry_access.rights.http_table import GATEWAY
from gantry_access.rights.request_table import ABOUT_ACCESS, REQUESTS
from gantry_guard.introduction import INNER
from gantry_link.connections.connection import connect
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import NotConnected
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode, RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.access_changes import AskAccessChanges

pytestmark = pytest.mark.anyio
PULL = {
    "topic": "GANTRY_SYS_ACCESS", "queueId": "0", "consumerGroup": "g", "queueOffset": "0", "gantryBrowse": "true",
    "maxMsgNums": "32", "sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
}  # fmt: skip
CUT = {name: PULL[name] for name in ("topic", "gantryBrowse")}
REFUSED = [
    (310, SEND, "no_user"),
    (310, signed(SEND, name="mallory"), "wrong_signature"),
    (310, signed({**SEND, "b": "secrets"}), "no_match"),
    (999, signed(SEND), "unmapped"),
    (9030, {}, "no_user"),
    (34, signed({}, b"{"), "unreadable"),
]


async def ask(guarded, code, fields, body=b""):
    async with connected(guarded.receive) as connection:
        answer = await connection.request(code, fields, body)
    return answer.code


@pytest.mark.parametrize(("code", "fields", "reason"), REFUSED)
async def test_what_enforce_refuses_is_handled_and_noted_with_its_reason(tmp_path, code, fields, reason):
    body = b"{" if code == 34 else b""
    strict = Guarded(table(MAY_SEND))
    assert await ask(strict, code, fields, body) != 0
    assert strict.counts() == {reason: 1}
    assert strict.counts("access_permitted") == {}
    file = tmp_path / "audit"
    mild = Guarded(table(MAY_SEND), is_permissive=True, file=file)
    for _ in range(2):
        assert await ask(mild, code, fields, body) == 0
    assert len(mild.handled) == 2
    assert (mild.counts(), mild.counts("access_permitted")) == ({}, {reason: 2})
    mild.audit.close()
    (line,) = [json.loads(text) for text in file.read_text().splitlines()]
    assert (line["decision"], line["reason"], line["count"]) == ("permitted", reason, 2)


async def test_a_request_that_enforce_allows_is_allowed_and_not_noted_as_permitted():
    guarded = Guarded(table(MAY_SEND), is_permissive=True)
    assert await ask(guarded, 310, signed(SEND)) == 0
    assert (guarded.counts(), guarded.counts("access_permitted")) == ({"allowed": 1}, {})


async def test_before_users_are_read_a_signed_request_passes():
    guarded = Guarded(table(is_complete=False), is_permissive=True)
    assert await ask(guarded, 310, signed(SEND)) == 0
    assert guarded.counts("access_permitted") == {"not_read_yet": 1}


@pytest.mark.parametrize("code", sorted(ABOUT_ACCESS))
async def test_requests_about_users_are_refused_as_ever(code):
    for access in (table(MAY_SEND), table(MAY_SEND, is_complete=False)):
        guarded = Guarded(access, is_permissive=True)
        for fields in (
            {},
            signed({}),
            signed({}, secret="guessed"),
            signed({}, name="nobody"),
            {"inner": "x"},
        ):
            assert await ask(guarded, code, fields) != 0
        assert (guarded.handled, guarded.counts("access_permitted")) == ([], {})


def test_the_requests_about_users_are_these():
    about = {code for code in REQUESTS if "AUTH_" in _name(code) or "ACL_" in _name(code) or "ACCESS" in _name(code)}  # fmt: skip
    assert about | {53} == ABOUT_ACCESS  # 53: white addresses
    words = ("/v1/users", "/v1/policies", "/v1/tokens", "/v1/access:")
    assert {route for route in GATEWAY if route[1].startswith(words)} == ROUTES_ABOUT_ACCESS


def _name(code):
    return next(kind(code).name for kind in (RequestCode, GantryCode) if code in list(kind))


@pytest.mark.parametrize("fields", [PULL, signed(PULL), signed(PULL, secret="guessed"), CUT, signed(CUT)])
async def test_the_topic_of_users_is_read_by_nobody(fields):
    guarded = Guarded(table(MAY_SEND), is_permissive=True)
    assert await ask(guarded, RequestCode.PULL_MESSAGE, fields) != 0
    assert guarded.handled == []


async def test_a_service_that_has_not_introduced_itself_passes_the_inner_door_and_is_counted():
    async with Listening(is_permissive=True) as listening:
        connection = await connect(listening.address)
        assert (await connection.request(LIST, {})).code == 0
        for code in (GantryCode.ACCESS_CHANGES, 3005):
            assert (await connection.request(code, {})).code == 16
        connection.close()
    assert len(listening.asked) == 1
    assert listening.guarded.counts("access_permitted") == {"not_inner": 1}


class Off:
    """A service without access control."""

    def __init__(self):
        self.asked = []

    def receive(self, peer, raw):
        command = decode_command(raw)
        self.asked.append(command.code)
        if command.code in (GantryCode.INTRODUCE, GantryCode.PROVE):
            raise RefusedRequest(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")
        peer.send(encode_response(0, command.opaque, {}))


async def test_a_permissive_service_uses_one_without_access_control_and_logs_it_once(capsys):
    off = Off()
    async with serving(off.receive) as address:
        introducer = introducer_of(is_permissive=True)
        for _ in range(3):
            pool = ConnectionPool(introduce=introducer)
            connection = await pool.get(address)
            assert (await connection.request(105, {})).code == 0
            assert not introducer.is_introduced(connection)
            await pool.close()
        pool = ConnectionPool(introduce=introducer_of(is_permissive=False))
        with pytest.raises(NotConnected, match="access control is off"):
            await pool.get(address)
        await pool.close()
    said = capsys.readouterr()
    assert (said.out + said.err).count("access control is off at another service") == 1


@pytest.mark.parametrize("code", [16, 1, 14])
async def test_any_other_refusal_of_an_introduction_stays_one(code):
    def refuse(_peer, _raw):
        raise RefusedRequest(code, "no")

    async with serving(refuse) as address:
        pool = ConnectionPool(introduce=introducer_of(is_permissive=True))
        with pytest.raises(NotConnected):
            await pool.get(address)
        await pool.close()


async def test_a_proof_that_is_not_known_after_an_introduction_stays_refused():
    guarded = Guarded(table())

    def receive(peer, raw):
        if decode_command(raw).code == GantryCode.PROVE:
            raise RefusedRequest(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")
        guarded.receive(peer, raw)

    async with serving(receive) as address:
        pool = ConnectionPool(introduce=introducer_of(is_permissive=True))
        with pytest.raises(NotConnected):
            await pool.get(address)
        await pool.close()


async def test_it_introduces_itself_where_access_control_is_on():
    peers, guarded = [], Guarded(table(), is_permissive=True)

    def receive(peer, raw):
        peers.append(peer)
        guarded.receive(peer, raw)

    async with serving(receive) as address:
        introducer = introducer_of(is_permissive=True)
        pool = ConnectionPool(introduce=introducer)
        assert introducer.is_introduced(await pool.get(address))
        await pool.close()
    assert INNER in peers[0].attributes


async def test_a_store_without_access_control_is_not_believed_about_users():
    """It would be enough to answer code 3 to make users of one's own."""
    forged = Store(*users("mallory"))

    def receive(peer, raw):
        command = decode_command(raw)
        if command.code == GantryCode.INTRODUCE:
            raise RefusedRequest(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")
        asked = decode_body(command.body, AskAccessChanges)
        forged.asked.append(asked)
        forged.answer(peer, command, asked)

    async with serving(receive) as address, Following(address, is_permissive=True) as following:
        await until(lambda: following.follower._reasons.get(address, "").startswith("access control is off"))
        assert following.follower.following == []
    assert (forged.asked, len(following.table.state), following.table.is_complete) == ([], 0, False)


# HTTP


ANY_USER = {"/v1/access:whoami", "/v1/access:explain", "/v1/tokens", "/v1/tokens/{id}"}
"""Need no right about the user itself; the gateway decides about other users (its `test_own_tokens`), in this mode, too."""


def test_an_http_call_without_a_user_or_a_right_passes():
    reader = ("reader", UserType.NORMAL, ["Get"])
    mild, _inner = made("broker-store", reader, is_permissive=True)
    strict, _inner = made("broker-store", reader)
    wrong = of("reader")[:-4]
    for header in (b"", wrong, of("nobody"), b"Bearer gantry_x", b"Nonsense"):
        for method, path in (("GET", "/metrics"), ("POST", "/snapshots")):
            assert strict.authorize(asks(method, path, header)).status == 401
            assert mild.authorize(asks(method, path, header)) is None
    assert strict.authorize(asks("POST", "/snapshots", of("reader"))).status == 403
    assert mild.authorize(asks("POST", "/snapshots", of("reader"))) is None
    assert strict.admits_unknown({}, "127.0.0.1", None).status == 401
    assert mild.admits_unknown({}, "127.0.0.1", None) is None


@pytest.mark.parametrize("route", sorted(ROUTES_ABOUT_ACCESS))
def test_http_calls_about_users_are_refused_as_ever(route):
    door, _inner = made("gateway", ("reader", UserType.NORMAL, ["Sub"]), is_permissive=True)
    for header in (b"", of("nobody"), b"Bearer gantry_x"):
        assert door.authorize(asks(*route, header)).status == 401
    if route[1] not in ANY_USER:
        assert door.authorize(asks(*route, of("reader"))).status == 403


def test_the_topic_of_users_is_read_by_nobody_over_http():
    door, _inner = made("gateway", ("reader", UserType.NORMAL, ["Get"]), is_permissive=True)
    route = ("GET", "/v1/topics/{topic}/queues/{broker}/{queueId}/messages")
    for header, status in ((b"", 401), (of("nobody"), 401), (of("reader"), 403)):
        asked = asks(*route, header)._replace(path_params={"topic": "GANTRY_SYS_ACCESS"})
        assert door.authorize(asked).status == status
        assert door.authorize(asked._replace(path_params={"topic": "orders"})) is None


def test_a_port_that_asks_for_a_token_when_off_lets_no_user_without_a_right_pass():
    door, _inner = made(
        "broker-store", ("reader", UserType.NORMAL, ["Get"]), is_permissive=True, needs_token_when_off=True
    )
    assert door.authorize(asks("POST", "/snapshots", of("reader"))).status == 403
    assert door.caller_of({}, "127.0.0.1", None, "GET /metrics").is_permitted


async def test_clients_that_name_any_number_of_users_fill_no_audit_log(tmp_path):
    file = tmp_path / "audit"
    guarded = Guarded(table(MAY_SEND), is_permissive=True, file=file)
    async with connected(guarded.receive) as connection:
        for number in range(1100):
            assert (await connection.request(310, signed(SEND, name=f"u{number}"))).code == 0
    guarded.audit.close()
    lines = [json.loads(text) for text in file.read_text().splitlines()]
    assert len(lines) == 1025
    (rest,) = [line for line in lines if line["reason"] == "not_listed"]
    assert (rest["decision"], rest["count"]) == ("permitted", 76)
