"""The door's fast path for sends of a known head admits nothing that the slow path refuses, and refuses nothing by itself."""

import pytest
from guarded import NOW_MS, SECRET, Guarded, policy, signed, table, user
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.entries.contents import policies_entry, user_entry
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, UserStatus
from gantry_guard.callers import ACTING_USER, SIGNED_BY
from gantry_wire.errors import WireError
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, FrameDecoder, RawFrame
from gantry_wire.frames.known_headers import KnownHeaders
from gantry_wire.messages.properties import TIMER_DEL_UNIQKEY

MAY_SEND = "Allow Pub Topic:orders"
TEXT = "UNIQ_KEY\x017F0000010B2C63947C6B8D4F00010002\x02WAIT\x01true\x02"
SEND, BATCH = 310, 320
FIELDS = {
    "a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000", "h": "0", "i": TEXT, "j": "0",
    "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip


class Client:
    """A peer without a socket."""

    def __init__(self):
        self.attributes, self.sent = {}, []
        self.remote, self.local = ("10.0.0.5", 4711), ("10.0.0.1", 10911)

    def send(self, frame):
        self.sent.append(frame)


class Port:
    """A port of a store: knows heads, and asks the fast path first."""

    def __init__(self, access, *, has_fast_path=True, **options):
        self.has_fast_path = has_fast_path
        self.guarded = Guarded(access, **options)
        self.headers = KnownHeaders()
        self.client = Client()
        self.fast = 0

    def admitted(self, raw):
        """What becomes of a frame: a bool, or the code of a refusal."""
        known = self.headers.find(raw.header) if self.has_fast_path else None
        if known is not None and self.guarded.door.admits_known(self.client, known, raw.body):
            self.fast += 1
            return True
        try:
            found = self.guarded.door.admit(self.client, raw)
            if found:
                self.headers.read(raw, known)
        except WireError as error:
            return int(error.code)
        return found


def frame(body=b"hi", opaque=1, code=SEND, name="alice", secret=SECRET, **fields):
    fields = signed({**FIELDS, **fields}, body, name, secret)
    return FrameDecoder().receive(encode_request(code, opaque, fields, body, serialize_type=BINARY))[0]


def known_port(*policies, **options):
    """A port at which alice has sent once, and will be known."""
    port = Port(table(*(policies or (MAY_SEND,))), **options)
    assert port.admitted(frame()) is True
    assert port.fast == 0
    return port


def test_a_repeated_head_takes_the_fast_path_and_is_counted_and_audited_alike():
    port = known_port()
    assert (
        port.admitted(frame(b"another", 2, e="1", g="1700000000999", i=TEXT.replace("0002", "0003"))) is True
    )
    assert port.fast == 1
    assert port.guarded.counts() == {"allowed": 2}
    assert port.client.attributes[ACTING_USER] == port.client.attributes[SIGNED_BY] == "alice"


@pytest.mark.parametrize(
    "raw",
    [
        frame(secret="another secret"),
        frame(name="bob"),
        frame()._replace(body=b"ho"),
        frame()._replace(header=frame().header.replace(b"1700000000000", b"1700000000001")),
        frame()._replace(header=frame().header.replace(b"WAIT", b"WAIS")),
        frame(b="ordert"),
    ],
)
def test_what_the_user_did_not_sign_or_may_not_send_is_refused(raw):
    port = known_port()
    assert port.admitted(raw) == 16
    assert port.fast == 0


def test_one_good_signature_opens_nothing_for_the_next_request():
    port = known_port()
    good, bad = frame(opaque=2), frame(opaque=3, secret="another secret")
    assert [port.admitted(one) for one in (good, bad, good, good)] == [True, 16, True, True]
    assert port.fast == 2, "after a failure the slow path serves the next one, which counts failures"


def test_a_connection_without_a_signature_of_the_user_takes_the_slow_path_first():
    port = known_port()
    port.client = Client()
    assert [port.admitted(frame()), port.admitted(frame())] == [True, True]
    assert port.fast == 1


def test_every_change_counts_for_the_next_send():
    port = known_port()
    entries = [
        policies_entry(SubjectPolicies(Subject("alice"), (policy("Allow Pub Topic:other"),)), 2),
        policies_entry(SubjectPolicies(Subject("alice"), (policy(MAY_SEND),)), 3),
        user_entry(user(status=UserStatus.DISABLE), 4),
        user_entry(user(), 5),
        user_entry(user(secret="a new secret"), 6),
    ]
    outcomes = []
    for entry in entries:
        port.guarded.door._table.take([entry])
        outcomes.append(port.admitted(frame()))
    assert outcomes == [16, True, 16, True, 16]
    assert port.admitted(frame(secret="a new secret")) is True


def test_an_expired_user_is_refused():
    port = known_port()
    port.guarded.door._table.take([user_entry(user(expires_ms=NOW_MS), 2)])
    assert port.admitted(frame()) == 16


def test_a_source_outside_of_the_network_is_refused():
    port = known_port(f"{MAY_SEND} 10.0.0.0/8")
    port.client = Client()
    port.client.remote = ("11.0.0.5", 4711)
    port.client.attributes[SIGNED_BY] = "alice"
    assert port.admitted(frame()) == 16
    assert port.fast == 0


def test_a_send_that_cancels_a_timed_message_needs_the_right_on_its_topic():
    port = known_port()
    cancelling = TEXT[: -len("WAIT\x01true\x02")] + f"{TIMER_DEL_UNIQKEY}\x01other+1\x02"
    assert port.admitted(frame(i=cancelling)) == 16
    assert port.admitted(frame(i=cancelling)) == 16


def test_validators_are_asked_about_every_send():
    asked = []

    class Counting:
        def validate(self, request):
            asked.append(request)

    port = known_port(validators=[Counting()])
    assert port.admitted(frame(opaque=2)) is True
    assert (len(asked), port.fast) == (2, 0)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "e": st.sampled_from(["1", "2", "10", "-1", "x", "%b"]),
        "g": st.sampled_from(["1700000000000", "1700000000999", "1", "170000000000%"]),
        "i": st.sampled_from([TEXT, TEXT.replace("true", "TRUE"), "é" * (len(TEXT) // 2), "a%b\x01c\x02", f"{TIMER_DEL_UNIQKEY}\x01o+1\x02"]) | st.text(max_size=8),
        "b": st.sampled_from(["orders", "ordert", "%RETRY%g", "order%"]),
        "a": st.sampled_from(["producers", "producerz", "%b%d%%"]),
        "n": st.sampled_from(["broker-a", "broker-b"]),
        "_UNIQUE_KEY_QUERY": st.just("true"),
        "SecurityToken": st.just("%s"),
        "Z": st.text(max_size=3),
    },
)  # fmt: skip
SENDS = st.tuples(
    VALUES,
    st.binary(max_size=4),
    st.sampled_from([SEND, SEND, BATCH, 10, 11]),
    st.sampled_from(["alice", "alice", "alice", "bob"]),
    st.sampled_from(["as signed", "as signed", "as signed", "other body", "a bit"]),
)


@given(st.lists(SENDS, max_size=12), st.integers(min_value=0))
def test_fast_and_slow_path_decide_alike(sends, at):
    policies = (MAY_SEND, "Allow Pub Topic:%RETRY%g", "Allow Sub Topic:orders")
    fast, slow = Port(table(*policies)), Port(table(*policies), has_fast_path=False)
    for fields, body, code, name, tampered in [({}, b"", SEND, "alice", "as signed"), *sends, *sends]:
        given_fields = {key: text for key, text in fields.items() if text}
        raw = frame(body, 1, code, name, **given_fields)
        if tampered == "other body":
            raw = raw._replace(body=raw.body + b"!")
        elif tampered == "a bit":
            place = at % len(raw.header)
            changed = bytes([raw.header[place] ^ 1])
            raw = RawFrame(
                raw.serialize_type, raw.header[:place] + changed + raw.header[place + 1 :], raw.body
            )
        assert fast.admitted(raw) == slow.admitted(raw)
    assert fast.guarded.counts() == slow.guarded.counts()
    for attribute in (ACTING_USER, SIGNED_BY):
        assert fast.client.attributes.get(attribute) == slow.client.attributes.get(attribute)
