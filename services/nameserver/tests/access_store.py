"""The side of a store that a nameserver with access control needs: introductions, and the changes of its users (9055)."""

import base64
import contextlib
import os

import msgspec

from gantry_access.entries.contents import policies_entry, user_entry
from gantry_access.entries.entry import encode_entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.actions import Action
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User, UserType
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import NONCE_SIZE
from gantry_access.signatures.remoting import sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.introduction import INNER, Introducer, Introductions
from gantry_link.serving.server import RemotingServer
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.access_changes import PAGE_BYTES_MAX, AccessChanges, AskAccessChanges

KEY = b"k" * 32
KEYS = ClusterKeys({"k1": KEY})
USERS = {
    "alice": ("Allow Pub Topic:A",),
    "broker": ("Allow Update Cluster:C",),
    "reader": ("Allow Get Cluster:DefaultCluster",),
}
"""Policies by user. The secret of each is its name, twice."""


def key_file(folder):
    path = folder / "keys"
    path.write_text(f"k1 {base64.b64encode(KEY).decode()}\n")
    path.chmod(0o600)
    return path


def introducer(keys=KEYS):
    return Introducer(keys.inner, "broker-store", os.urandom)


def signed(user, fields=None, body=b""):
    return sign(fields or {}, body, user, SigningKey(user * 2))


def user_of(name, **parts):
    sealed = KEYS.sealing.seal(name, HiddenText(name * 2), os.urandom(NONCE_SIZE))
    return user_entry(User(name, secrets=(sealed,), **parts), 1)


def policies_of(name, texts):
    entries: list[PolicyEntry] = []
    for text in texts:
        decision, actions, resource = text.split()
        entries.append(
            PolicyEntry(Resource.parse(resource), Action.parse_all(actions.split(",")), Decision(decision))
        )
    return policies_entry(SubjectPolicies(Subject(name), tuple(entries)), 1)


class AccessStore:
    """What a store has of access control, on a port."""

    def __init__(self):
        self.table = AccessTable(KEYS.sealing)
        self.table.take([user_of("root", type=UserType.SUPER)])
        for name, texts in USERS.items():
            self.table.take([user_of(name), policies_of(name, texts)])
        self.introductions = Introductions(KEYS.inner, os.urandom)
        self.held, self.pushed = [], []

    def take(self, entries):
        """Change something: answers the requests that wait."""
        self.table.take(entries)
        held, self.held = self.held, []
        for peer, command, asked in held:
            self._answer(peer, command, asked)

    def receive(self, peer, raw):
        command = decode_command(raw)
        if command.code == GantryCode.INTRODUCE:
            self.introductions.introduce(peer, command)
        elif command.code == GantryCode.PROVE:
            self.introductions.prove(peer, command)
        elif command.code == GantryCode.ACCESS_CHANGES and INNER in peer.attributes:
            self._answer(peer, command, decode_body(command.body, AskAccessChanges))
        else:
            self.pushed.append((peer.attributes.get(INNER), command.code))

    def _answer(self, peer, command, asked):
        entries, version = self.table.page(asked.version if asked.run == "1" else 0, PAGE_BYTES_MAX)
        if not entries and asked.wait_ms:
            self.held.append((peer, command, asked))
            return
        raws = [msgspec.Raw(encode_entry(entry)) for entry in entries]
        body = AccessChanges(run="1", version=version, more=version < self.table.version, entries=raws)
        peer.send(encode_response(0, command.opaque, None, msgspec.json.encode(body)))


@contextlib.asynccontextmanager
async def serving_store():
    """Yield an AccessStore and its address."""
    store = AccessStore()
    server = RemotingServer(store.receive)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield store, f"127.0.0.1:{port}"
    finally:
        await server.close()
