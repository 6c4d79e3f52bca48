"""Real servers behind doors, keys and users, for the tests of this package."""

import base64
import os
from contextlib import asynccontextmanager

from gantry_access.entries.contents import policies_entry, user_entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import NONCE_SIZE
from gantry_access.signatures.remoting import sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_guard.audit import Audit
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.door import Door
from gantry_guard.failures import FailureLimits
from gantry_guard.introduction import Introducer, Introductions
from gantry_guard.refusals import Refusals
from gantry_guard.validators import Validators
from gantry_link.connections.connection import connect
from gantry_link.serving.server import RemotingServer
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response

KEYS = ClusterKeys({"k1": bytes(range(32))})
OTHER_KEYS = ClusterKeys({"k1": bytes(32)})
SECRET = "the secret of alice"
NOW_MS = 1_700_000_000_000


def key_file(path, *keys):
    """Write a key file of mode 0600 with these 32 bytes each."""
    lines = [f"k{number} {base64.b64encode(key).decode()}\n" for number, key in enumerate(keys)]
    path.write_text("# keys of this cluster\n\n" + "".join(lines))
    path.chmod(0o600)
    return path


def policy(text):
    """An entry of a text such as `Allow Pub,Sub Topic:a* 10.0.0.0/8`."""
    decision, actions, resource, *networks = text.split()
    return PolicyEntry(
        Resource.parse(resource),
        Action.parse_all(actions.split(",")),
        Decision(decision),
        tuple(map(SourceNetwork.parse, networks)),
    )


def user(name="alice", secret=SECRET, **parts):
    sealed = KEYS.sealing.seal(name, HiddenText(secret), os.urandom(NONCE_SIZE))
    return User(name, secrets=(sealed,), **parts)


def table(*policies, users=None, is_complete=True):
    """The table of alice with these policies, or of these users."""
    found = AccessTable(KEYS.sealing)
    found.take(user_entry(one, 1) for one in (users or [user()]))
    if policies:
        entries = tuple(map(policy, policies))
        found.take([policies_entry(SubjectPolicies(Subject("alice"), entries), 1)])
    found.is_complete = is_complete
    return found


def signed(fields, body=b"", name="alice", secret=SECRET):
    return sign(fields, body, name, SigningKey(secret))


def introducer_of(keys=KEYS, role="gateway", *, is_permissive=False):
    return Introducer(keys.inner, role, os.urandom, is_permissive=is_permissive)


class Clock:
    """A clock in seconds that tests move."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def validators_of(validators, metrics, steady=lambda: 0.0):
    """Validators with the names of their classes; None for none."""
    named = [(type(one).__name__, one) for one in validators]
    return Validators(named, metrics, steady) if named else None


class Guarded:
    """A door with all its parts, and what its handler was given."""

    def __init__(
        self,
        access,
        *,
        file=None,
        topic_of_record=None,
        keys=KEYS,
        addresses=(),
        is_permissive=False,
        tls_users=False,
        validators=(),
    ):
        self.metrics = Metrics()
        self.clock = Clock()
        self.failures = FailureLimits(self.clock)
        self.audit = Audit(
            file, "test", self.metrics, wall_ms=lambda: NOW_MS, make_thread=machine().make_thread
        )
        self.refusals = Refusals(
            self.audit, validators_of(validators, self.metrics), is_permissive=is_permissive
        )
        self.introductions = Introductions(keys.inner, os.urandom, addresses)
        self.door = Door(
            access,
            self.introductions,
            "DefaultCluster",
            failures=self.failures,
            refusals=self.refusals,
            certificates=CertificateUsers(access, is_on=tls_users),
            now_ms=lambda: NOW_MS,
            topic_of_record=topic_of_record,
        )
        self.handled = []

    def receive(self, peer, raw):
        if not self.door.admit(peer, raw):
            return
        command = decode_command(raw)
        self.handled.append(command)
        if not command.is_oneway:
            peer.send(encode_response(0, command.opaque, {"served": "yes"}))

    def counts(self, name="access_requests"):
        """How often each reason was counted."""
        family = next(one for one in self.metrics.shown() if one.name == name)
        return {labels[0]: numbers[0] for labels, numbers in family.samples if numbers[0]}


@asynccontextmanager
async def serving(receive):
    """A server on a free port; yields its address."""
    server = RemotingServer(receive)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.close()


@asynccontextmanager
async def connected(receive):
    """A connection to a server of its own."""
    async with serving(receive) as address:
        connection = await connect(address)
        try:
            yield connection
        finally:
            connection.close()
