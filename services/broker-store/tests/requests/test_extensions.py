"""Extensions see what they override and nothing else. Only a RefusedRequest refuses; everything else continues."""

import pytest
from memory_store import MemoryPeer
from reading_side import SUSPEND, WITH_SUBSCRIPTION, ReadingSide, pull_fields
from sending_side import ScriptedPeer, SendingSide

from broker_store.process.extension_hooks import Hooks
from broker_store.requests.extensions import Extension, Extensions, StoreView, load_extensions
from broker_store.requests.tracing import SendTracing
from gantry_chassis.start_refusal import StartRefused
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import TRANS_CHECK_MAX_TIME_TOPIC

pytestmark = pytest.mark.anyio


class Listener(Extension):
    """Records every event."""

    def __init__(self):
        self.heard = []

    def start(self, store):
        self.heard.append(("start", store.broker_name))

    def close(self):
        self.heard.append(("close",))

    def before_request(self, request):
        self.heard.append(("before_request", request.code, request.remote))

    def after_request(self, request, reply):
        self.heard.append(("after_request", request.code, reply.code))

    def before_send(self, send):
        self.heard.append(("before_send", send.topic, send.producer_group, dict(send.properties).get("a")))

    def after_send(self, send, reply):
        self.heard.append(("after_send", send.is_batch, reply.code, reply.fields.get("queueOffset")))

    def before_pull(self, pull):
        self.heard.append(("before_pull", pull.consumer_group, pull.topic, pull.offset))

    def after_pull(self, pull, reply):
        self.heard.append(("after_pull", reply.code, reply.fields.get("nextBeginOffset")))

    def before_decision(self, decision):
        self.heard.append(("before_decision", decision.producer_group, decision.is_commit))

    def on_stored(self, stored):
        self.heard.append(("on_stored", *stored))

    def on_half_given_up(self, stored):
        self.heard.append(("on_half_given_up", *stored))

    def of(self, *points):
        return [event for event in self.heard if event[0] in points]


@pytest.fixture
async def side():
    return SendingSide()


def listening(side, *extensions, failures=None):
    """Put extensions around a sending side's commands."""

    def note(extension, point, error):
        if failures is not None:
            failures.append((extension, point, type(error).__name__))

    hooks = Hooks(Extensions(list(extensions), note), side.clock.now_ms)
    side.table._handlers.clear()
    side.table.add_all(hooks.commands(side.sending.commands()))
    side.readers = hooks.readers(side.readers)
    return hooks


class Silent:
    """Readers that are not used."""

    held_count = 0

    def arrived(self, *_):
        pass

    def answer_arrivals(self):
        pass


async def test_an_extension_sees_a_send_before_and_after(side):
    listener, peer = Listener(), ScriptedPeer()
    listening(side, listener)
    side.readers._readers = Silent()
    side.send(peer, properties={"UNIQ_KEY": "U1", "a": "1"})
    assert listener.of("before_send", "after_send") == [("before_send", "orders", "pg", "1")]
    side.flush()
    assert listener.of("after_send") == [("after_send", False, 0, "0")]
    assert listener.of("before_request", "after_request") == [
        ("before_request", 310, "127.0.0.1:40000"),
        ("after_request", 310, 0),
    ]
    assert listener.of("on_stored") == [("on_stored", "orders", 0, 0, 1)]
    assert peer.answers[0].code == 0


async def test_a_batch_and_a_refusal_are_seen_too(side):
    listener, peer = Listener(), ScriptedPeer()
    listening(side, listener)
    side.readers._readers = Silent()
    side.send_batch(peer, [(b"1", {"UNIQ_KEY": "U1"}), (b"2", {"UNIQ_KEY": "U2"})])
    side.flush()
    side.send(peer, queue_id=99)
    assert listener.of("after_send") == [("after_send", True, 0, "0"), ("after_send", False, 29, None)]
    assert listener.of("on_stored") == [("on_stored", "orders", 0, 0, 2)]


async def test_a_one_way_send_has_no_after(side):
    listener, peer = Listener(), ScriptedPeer()
    listening(side, listener)
    side.readers._readers = Silent()
    side.send(peer, oneway=True)
    side.flush()
    assert listener.of("before_send", "after_send", "after_request") == [
        ("before_send", "orders", "pg", None)
    ]
    assert peer.answers == []


async def test_pulls_are_seen_when_they_are_answered(tmp_path):
    side, listener = ReadingSide(tmp_path), Listener()
    hooks = Hooks(Extensions([listener]), side.now_ms)
    side.commands = hooks.commands(side.commands)
    held = pull_fields(sysFlag=SUSPEND | WITH_SUBSCRIPTION, suspendTimeoutMillis=60_000)
    peer = MemoryPeer()
    side.send(11, held, peer=peer)
    assert listener.of("before_pull", "after_pull") == [("before_pull", "readers", "orders", 0)]
    side.put(b"x")
    assert listener.of("after_pull") == [("after_pull", 0, "1")]
    assert peer.answer().code == 0
    await side.consuming.stop()


async def test_pushes_on_the_same_connection_are_no_answers(tmp_path):
    side, listener = ReadingSide(tmp_path), Listener()
    side.commands = Hooks(Extensions([listener]), side.now_ms).commands(side.commands)
    body = b'{"clientID":"c1","consumerDataSet":[{"groupName":"readers","subscriptionDataSet":[]}]}'
    await side.ask(34, body=body)
    assert listener.of("after_request") == [("after_request", 34, 0)]
    (client,) = side.consuming.clients.consumers["readers"].clients.values()
    client.peer.send(b"\x00\x00\x00\x04\x00\x00\x00\x00")
    await side.consuming.stop()


async def test_a_header_that_cannot_be_read_is_left_to_its_handler(side):
    listener, peer = Listener(), ScriptedPeer()
    listening(side, listener)
    side.ask(peer, 310, {"a": "pg"})
    assert peer.answers[0].code == ResponseCode.SYSTEM_ERROR
    assert listener.heard == []


async def test_half_messages_put_aside_are_reported_to_the_check_listener(side):
    listener = Listener()
    observed = Hooks(Extensions([listener]), side.clock.now_ms).readers(Silent())
    observed.arrived(TRANS_CHECK_MAX_TIME_TOPIC, 0, 5, [0, 0])
    assert listener.of("on_half_given_up") == [("on_half_given_up", TRANS_CHECK_MAX_TIME_TOPIC, 0, 5, 2)]


class Refusing(Extension):
    def before_send(self, send):
        raise RefusedRequest(ResponseCode.NO_PERMISSION, f"not into {send.topic}")


async def test_a_refusal_before_a_send_is_its_answer(side):
    peer = ScriptedPeer()
    listening(side, Refusing())
    side.send(peer)
    side.flush()
    assert (peer.answers[0].code, peer.answers[0].remark) == (ResponseCode.NO_PERMISSION, "not into orders")
    assert side.records() == []


class Broken(Extension):
    def before_request(self, request):
        raise ValueError("before")

    def before_send(self, send):
        raise KeyError("send")

    def after_send(self, send, reply):
        raise RefusedRequest(ResponseCode.NO_PERMISSION, "too late to refuse")

    def on_stored(self, stored):
        raise RuntimeError("stored")


async def test_any_other_exception_breaks_nothing(side):
    peer, failures, listener = ScriptedPeer(), [], Listener()
    listening(side, Broken(), listener, failures=failures)
    side.readers._readers = Silent()
    side.send(peer)
    side.flush()
    assert peer.answers[0].code == 0
    assert len(side.records()) == 1
    assert failures == [
        ("Broken", "before_request", "ValueError"),
        ("Broken", "before_send", "KeyError"),
        ("Broken", "on_stored", "RuntimeError"),
        ("Broken", "after_send", "RefusedRequest"),
    ]
    assert len(listener.of("after_send")) == 1


class OnlySends(Extension):
    def after_send(self, send, reply):
        pass


async def test_without_a_listener_nothing_is_wrapped(side):
    commands = side.sending.commands()
    assert Hooks(Extensions(), side.clock.now_ms).commands(commands) == commands
    hooks = Hooks(Extensions([OnlySends()]), side.clock.now_ms)
    changed = {code for code, entry in hooks.commands(commands).items() if entry != commands[code]}
    assert changed == {10, 310, 320}
    readers = Silent()
    assert hooks.readers(readers) is readers


def view(append=None):
    return StoreView("broker-a", "DefaultCluster", "DefaultRegion", "127.0.0.1:10911", lambda: 5, append)


def test_extensions_are_loaded_by_name_or_place():
    (built_in,) = load_extensions(" tracing ,")
    assert isinstance(built_in, SendTracing)
    (given,) = load_extensions("broker_store.requests.tracing:SendTracing")
    assert isinstance(given, SendTracing)
    assert load_extensions("") == []


@pytest.mark.parametrize(
    "name",
    [
        "nothing_of_this_name",
        "broker_store.nowhere:X",
        "broker_store.requests.tracing:Nobody",
        "builtins:dict",
    ],
)
def test_a_name_that_gives_no_extension_refuses_the_start(name):
    with pytest.raises(StartRefused, match="the extension"):
        load_extensions(name)


def test_an_extension_that_cannot_start_refuses_the_start():
    class Unwilling(Extension):
        def start(self, store):
            raise OSError("no database")

    with pytest.raises(StartRefused, match="Unwilling cannot start"):
        Extensions([Unwilling()]).start(view())


def test_start_and_close_are_called_once():
    listener = Listener()
    extensions = Extensions([listener, Refusing()])
    extensions.start(view())
    extensions.close()
    assert listener.heard == [("start", "broker-a"), ("close",)]
