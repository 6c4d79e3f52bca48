"""Two services that have the same keys trust each other, and nobody else becomes one of them."""

import asyncio
import base64
import contextlib
import os

import pytest
from guarded import KEYS, OTHER_KEYS, connected, serving
from hypothesis import given
from hypothesis import strategies as st

from gantry_guard import introduction
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.introduction import INNER, Introducer, Introductions, endpoint_text
from gantry_link.connections.connection import connect
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import NotConnected
from gantry_wire.codes import GantryCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.introduction import IntroduceHeader, IntroduceReplyHeader, ProveHeader

pytestmark = pytest.mark.anyio
ROLE = "gateway"


class Served:
    """The server's side of introductions, and the peers that it has."""

    def __init__(self, keys=KEYS, addresses=()):
        self.introductions = Introductions(keys.inner, os.urandom, addresses)
        self.peers = []

    def receive(self, peer, raw):
        command = decode_command(raw)
        if peer not in self.peers:
            self.peers.append(peer)
        if command.code == GantryCode.INTRODUCE:
            self.introductions.introduce(peer, command)
        elif command.code == GantryCode.PROVE:
            self.introductions.prove(peer, command)
        else:
            peer.send(encode_response(0, command.opaque, {"inner": str(peer.attributes.get(INNER))}))

    @property
    def inner(self):
        return [peer.attributes.get(INNER) for peer in self.peers]


def introducer(keys=KEYS):
    return Introducer(keys.inner, ROLE, os.urandom)


def text(data):
    return base64.b64encode(data).decode()


async def begin(connection, nonce=None, role=ROLE, address=None):
    """Send 9050; return the client's nonce and the reply."""
    ours = nonce or os.urandom(32)
    header = IntroduceHeader(role=role, nonce=text(ours), address=address or endpoint_text(connection.remote))
    return ours, await connection.request(GantryCode.INTRODUCE, header)


def proof(connection, ours, answer, role=ROLE, address=None, key=KEYS.inner[0]):
    """What a client of these keys sends as 9051."""
    theirs = base64.b64decode(answer.read(IntroduceReplyHeader).nonce)
    here = (address or endpoint_text(connection.remote)).encode()
    said = role.encode(), here, ours, theirs
    return ProveHeader(proof=text(introduction._proof(key, introduction._CLIENT, *said)))


async def test_services_with_one_key_trust_each_other():
    served = Served()
    async with connected(served.receive) as connection:
        await introducer()(connection)
    assert served.inner == [ROLE]


@pytest.mark.parametrize(
    ("server", "client"),
    [(["new", "old"], ["old"]), (["old"], ["new", "old"]), (["new", "old"], ["new", "old"])],
)
async def test_services_trust_each_other_while_a_key_is_replaced(server, client):
    keys = {"new": b"n" * 32, "old": b"o" * 32}
    served = Served(ClusterKeys({name: keys[name] for name in server}))
    async with connected(served.receive) as connection:
        await introducer(ClusterKeys({name: keys[name] for name in client}))(connection)
    assert served.inner == [ROLE]


async def test_a_server_without_the_keys_is_found_before_the_client_proves_anything():
    served = Served(OTHER_KEYS)
    async with connected(served.receive) as connection:
        with pytest.raises(NotConnected, match="does not have the keys of this cluster"):
            await introducer()(connection)
    assert served.inner == [None]


async def test_a_server_with_access_control_off_is_named():
    async with connected(
        lambda peer, raw: peer.send(encode_response(3, decode_command(raw).opaque))
    ) as connection:
        with pytest.raises(NotConnected, match="access control is off"):
            await introducer()(connection)


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"nonce": "", "proofs": ""},
        {"nonce": "x", "proofs": "y z"},
        {"nonce": text(bytes(32)), "proofs": " " * 9000},
    ],
)
async def test_a_malformed_answer_is_no_introduction(reply):
    async with connected(
        lambda peer, raw: peer.send(encode_response(0, decode_command(raw).opaque, reply))
    ) as connection:
        with pytest.raises(NotConnected):
            await introducer()(connection)


async def test_a_server_that_reflects_the_nonce_is_refused():
    def reflect(peer, raw):
        command = decode_command(raw)
        asked = command.read(IntroduceHeader)
        peer.send(
            encode_response(0, command.opaque, IntroduceReplyHeader(nonce=asked.nonce, proofs=asked.nonce))
        )

    async with connected(reflect) as connection:
        with pytest.raises(NotConnected, match="without a nonce of its own"):
            await introducer()(connection)


async def test_the_servers_proof_is_useless_as_the_clients():
    served = Served()
    async with connected(served.receive) as connection:
        _, answer = await begin(connection)
        stolen = ProveHeader(proof=answer.read(IntroduceReplyHeader).proofs)
        assert (await connection.request(GantryCode.PROVE, stolen)).code == 16
    assert served.inner == [None]


async def test_a_proof_serves_once_and_on_its_own_connection_only():
    served = Served()
    async with serving(served.receive) as address:
        first, second = await connect(address), await connect(address)
        ours, answer = await begin(first)
        made = proof(first, ours, answer)
        assert (await second.request(GantryCode.PROVE, made)).code == 16
        assert (await first.request(GantryCode.PROVE, made)).code == 0
        assert (await first.request(GantryCode.PROVE, made)).code == 16
        _, again = await begin(second, nonce=ours)  # the server's nonce is another one
        assert again.read(IntroduceReplyHeader).nonce != answer.read(IntroduceReplyHeader).nonce
        assert (await second.request(GantryCode.PROVE, made)).code == 16
        first.close()
        second.close()
    assert served.inner == [ROLE, None]


async def test_a_failed_proof_uses_the_nonce_up():
    served = Served()
    async with connected(served.receive) as connection:
        ours, answer = await begin(connection)
        right = proof(connection, ours, answer)
        assert (await connection.request(GantryCode.PROVE, ProveHeader(proof=text(bytes(32))))).code == 16
        assert (await connection.request(GantryCode.PROVE, right)).code == 16
    assert served.inner == [None]


@pytest.mark.parametrize(
    "change", [{"role": "store"}, {"address": "10.0.0.9:1"}, {"key": OTHER_KEYS.inner[0]}]
)
async def test_role_address_and_key_are_part_of_the_proof(change):
    served = Served()
    async with connected(served.receive) as connection:
        ours, answer = await begin(connection)
        made = proof(connection, ours, answer, **change)
        assert (await connection.request(GantryCode.PROVE, made)).code == 16
    assert served.inner == [None]


@pytest.mark.parametrize("lies", [False, True])
async def test_a_server_cannot_pass_an_introduction_on_to_another_one(lies):
    """Otherwise it could take the place of its client at a store, or pass for that store, whose users it would then forge."""
    served = Served()
    async with serving(served.receive) as real:
        upstream = await connect(real)
        passed, tasks = [], []

        def relay(peer, raw):
            command = decode_command(raw)

            async def pass_on():
                fields = command.ext | ({"address": real} if lies and command.code == 9050 else {})
                answer = await upstream.request(command.code, fields)
                passed.append((command.code, answer.code))
                peer.send(encode_response(answer.code, command.opaque, answer.ext, remark=answer.remark))

            tasks.append(asyncio.ensure_future(pass_on()))

        async with connected(relay) as connection:
            words = "does not have the keys" if lies else "access_addresses"
            with pytest.raises(NotConnected, match=words):
                await introducer()(connection)
        upstream.close()
    assert passed == [(GantryCode.INTRODUCE, 0 if lies else 16)]
    assert served.inner == [None]


@pytest.mark.parametrize(
    ("named", "is_accepted"),
    [(["10.9.9.9:9876"], True), (["*"], True), (["10.9.9.9:1"], False), ([], False)],
)
async def test_an_address_that_a_router_has_is_accepted_if_it_is_named(named, is_accepted):
    served = Served(addresses=named)
    async with connected(served.receive) as connection:
        ours, answer = await begin(connection, address="10.9.9.9:9876")
        assert (answer.code == 0) == is_accepted
        if is_accepted:
            made = proof(connection, ours, answer, address="10.9.9.9:9876")
            assert (await connection.request(GantryCode.PROVE, made)).code == 0
    assert served.inner == [ROLE if is_accepted else None]


class Silent:
    """A peer that keeps what it is sent."""

    def __init__(self):
        self.attributes, self.sent = {}, []
        self.local = ("127.0.0.1", 9876)

    def send(self, frame):
        self.sent.append(frame)


FIELDS = st.dictionaries(
    st.sampled_from(["role", "nonce", "address", "proof", "proofs", "x"]), st.text(max_size=80), max_size=5
)


@given(
    st.lists(st.tuples(st.sampled_from(["introduce", "prove"]), FIELDS, st.sampled_from([0, 2])), max_size=4)
)
def test_no_malformed_introduction_makes_an_inner_peer(steps):
    introductions, peer = Introductions(KEYS.inner, os.urandom), Silent()
    for step, fields, flag in steps:
        with contextlib.suppress(WireError):
            getattr(introductions, step)(peer, Command(code=9050, flag=flag, fields=fields))
    assert INNER not in peer.attributes


@given(
    st.lists(st.binary(max_size=6), min_size=1, max_size=4),
    st.lists(st.binary(max_size=6), min_size=1, max_size=4),
)
def test_two_lists_of_parts_have_one_proof_only_if_they_are_equal(first, second):
    same = introduction._proof(b"k", b"s", *first) == introduction._proof(b"k", b"s", *second)
    assert same == (first == second)


async def test_a_one_way_introduction_gets_no_answer():
    introductions, peer = Introductions(KEYS.inner, os.urandom), Silent()
    fields = {"role": ROLE, "nonce": text(bytes(32)), "address": "127.0.0.1:9876"}
    introductions.introduce(peer, Command(flag=2, fields=fields))
    assert peer.sent == []


async def test_a_pool_hands_out_introduced_connections_only():
    served = Served()
    async with serving(served.receive) as address:
        pool = ConnectionPool(introduce=introducer())
        connection = await pool.get(address)
        assert (await connection.request(105)).ext == {"inner": ROLE}
        await pool.close()


async def test_a_pool_backs_off_after_a_refused_introduction():
    served = Served(OTHER_KEYS)
    async with serving(served.receive) as address:
        pool = ConnectionPool(introduce=introducer())
        for _ in range(2):
            with pytest.raises(NotConnected, match="does not have the keys"):
                await pool.get(address)
        assert pool.failed_connects == 1
        assert pool.get_nowait(address) is None
        await pool.close()


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        (("::ffff:10.0.0.1", 80), "10.0.0.1:80"),
        (("::1", 80), "[::1]:80"),
        (("10.0.0.1", 80), "10.0.0.1:80"),
        (("", 0), ":0"),
    ],
)
async def test_both_sides_write_an_endpoint_alike(endpoint, shown):
    assert endpoint_text(endpoint) == shown
