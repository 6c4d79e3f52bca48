"""Who may make a call: the names that rights depend on, the token, and refusals with codes of the protocol."""

from __future__ import annotations

import pytest
from gateway_grpc_peers import caller
from gateway_guarded import Access

from gantry_access.rights.grpc_table import METHODS as ROWS
from gantry_access.rights.grpc_table import GrpcAsked
from gantry_access.signatures.signing_key import SigningKey
from gateway.grpc.access import GrpcAccess, asked_of
from gateway.grpc.codes import Refused
from gateway.grpc.proto import METHODS
from gateway.grpc.proto.common import MessageQueue, Resource, SubscriptionEntry
from gateway.grpc.proto.message import Message
from gateway.grpc.proto.pulling import PullMessageRequest, QueryOffsetRequest
from gateway.grpc.proto.receiving import AckMessageRequest, ReceiveMessageRequest
from gateway.grpc.proto.routing import HeartbeatRequest, NotifyClientTerminationRequest, QueryRouteRequest
from gateway.grpc.proto.sending import SendMessageRequest
from gateway.grpc.proto.settings import Publishing, Settings, Subscription
from gateway.grpc.proto.telemetry import TelemetryCommand

T, G = Resource(name="t"), Resource(name="g")
QUEUE = MessageQueue(topic=T)
DATE = "20231114T221320Z"
"""BEGIN_MS of the guarded gateway."""


@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [
        ("QueryRoute", QueryRouteRequest(topic=T), GrpcAsked(("n%t",))),
        ("SendMessage", SendMessageRequest(messages=[Message(topic=T), Message(topic=G)]), GrpcAsked(("n%t", "n%g"))),
        ("ReceiveMessage", ReceiveMessageRequest(group=G, message_queue=QUEUE), GrpcAsked(("n%t",), "n%g")),
        ("ReceiveMessage", ReceiveMessageRequest(group=G), GrpcAsked((), "n%g")),
        ("AckMessage", AckMessageRequest(group=G, topic=T), GrpcAsked(("n%t",), "n%g")),
        ("PullMessage", PullMessageRequest(group=G, message_queue=QUEUE), GrpcAsked(("n%t",), "n%g")),
        ("QueryOffset", QueryOffsetRequest(message_queue=QUEUE), GrpcAsked(("n%t",))),
        ("Heartbeat", HeartbeatRequest(group=G, client_type=2), GrpcAsked(group="n%g", client_type=2)),
        ("NotifyClientTermination", NotifyClientTerminationRequest(group=G), GrpcAsked(group="n%g")),
        (
            "Telemetry",
            TelemetryCommand(settings=Settings(publishing=Publishing(topics=[T]))),
            GrpcAsked(("n%t",), command="publishing"),
        ),
        (
            "Telemetry",
            TelemetryCommand(settings=Settings(subscription=Subscription(group=G, subscriptions=[SubscriptionEntry(topic=T)]))),
            GrpcAsked(("n%t",), "n%g", command="subscription"),
        ),
        ("Telemetry", TelemetryCommand(settings=Settings()), GrpcAsked(command="empty settings")),
        ("Telemetry", TelemetryCommand(), GrpcAsked()),
    ],
)  # fmt: skip
def test_the_names_that_rights_depend_on(method, request_, expected):
    assert asked_of(method, caller(x_mq_namespace="n"), request_) == expected


def test_every_method_has_a_row_and_is_read():
    assert set(METHODS) == set(ROWS)
    for method in METHODS.values():
        if method.name != "Telemetry":
            assert isinstance(asked_of(method.name, caller(), method.request()), GrpcAsked)


@pytest.mark.parametrize(
    ("header", "is_good"), [("Bearer word", True), ("bearer  word", True), ("", False), ("Bearer x", False)]
)
def test_the_token_is_demanded(header, is_good):
    access, its = GrpcAccess("word", None), caller(authorization=header)
    if is_good:
        access.admit("QueryRoute", its, QueryRouteRequest())
        return
    with pytest.raises(Refused) as refused:
        access.admit("QueryRoute", its, QueryRouteRequest())
    assert refused.value.code == 40100


def test_without_access_control_and_token_everything_is_admitted():
    GrpcAccess("", None).admit("QueryRoute", caller(), QueryRouteRequest())


def guarded(*, is_permissive=False, token=""):
    access = Access(is_permissive=is_permissive)
    access.user("alice", "Allow Pub/Sub Topic:t")
    return GrpcAccess(token, access.guard.grpc_door("DefaultCluster", needs_token_when_off=bool(token)))


def signed(secret="secret-of-alice"):
    signature = SigningKey(secret).digest(DATE.encode()).hex()
    return {
        "authorization": f"MQv2-HMAC-SHA1 Credential=alice, SignedHeaders=x-mq-date-time, Signature={signature}",
        "x_mq_date_time": DATE,
    }


ASKED = QueryRouteRequest(topic=T)


def test_a_user_may_what_its_policies_allow():
    access = guarded()
    access.admit("QueryRoute", caller(**signed()), ASKED)
    with pytest.raises(Refused) as refused:
        access.admit("QueryRoute", caller(**signed()), QueryRouteRequest(topic=G))
    assert refused.value.code == 40300


@pytest.mark.parametrize("headers", [{}, signed("wrong")])
def test_who_proves_no_user_is_refused(headers):
    with pytest.raises(Refused) as refused:
        guarded().admit("QueryRoute", caller(**headers), ASKED)
    assert refused.value.code == 40100


def test_in_the_permissive_mode_who_proves_nothing_needs_the_token():
    guarded(is_permissive=True).admit("QueryRoute", caller(), ASKED)
    access = guarded(is_permissive=True, token="word")
    access.admit("QueryRoute", caller(authorization="Bearer word"), ASKED)
    with pytest.raises(Refused) as refused:
        access.admit("QueryRoute", caller(), ASKED)
    assert refused.value.code == 40100


def test_the_moment_changes_with_users_and_policies():
    access = Access()
    one = GrpcAccess("", access.guard.grpc_door("DefaultCluster", needs_token_when_off=False))
    before = one.moment
    access.user("alice", "Allow Pub/Sub Topic:t")
    assert one.moment != before
    assert GrpcAccess("", None).moment == GrpcAccess("word", None).moment
