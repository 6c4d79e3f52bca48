"""The entries of the log as a derived state: order does not matter, snapshots and the log agree, followers get everything once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_store.access.access_entries import AccessEntries
from broker_store.commit.topics import ACCESS_TOPIC
from broker_store.log.errors import DamagedRecord
from broker_store.state_records import keyed_entries
from broker_store.state_records.keyed_entries import NOT_IN_LOG
from gantry_access.entries.entry import Entry, Key, Kind, decode_entry, encode_entry
from gantry_wire.records.message_record import build_record

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))

entry = st.builds(
    Entry,
    st.sampled_from(Kind),
    st.sampled_from("ab"),
    st.integers(0, 4),
    st.one_of(st.none(), st.sampled_from([b'{"v":1}', b'{"v":2}'])),
)


def scanned(position: int, topic: str = ACCESS_TOPIC) -> tuple:
    return (position, 1, 0, 0, 0, 0, 0, topic.encode(), b"")


def replay(state: AccessEntries, log: list[Entry], begin: int) -> None:
    for position in range(begin, len(log)):
        body = encode_entry(log[position])
        record = build_record(ACCESS_TOPIC.encode(), 0, position, position, body, b"", 0, 0, 0, HOST, 0, HOST)
        state.take(scanned(position), lambda _position, _size, record=record: record)  # type: ignore[arg-type]


def user(name: str, stamp_ms: int, record: bytes | None = b"{}") -> Entry:
    return Entry(Kind.USER, name, stamp_ms, record)


@settings(deadline=None)
@given(st.lists(entry, max_size=12), st.randoms(use_true_random=False))
def test_the_newest_entry_of_a_key_counts_in_whatever_order_records_come(log, dice):
    one, other = AccessEntries(), AccessEntries()
    replay(one, log, 0)
    shuffled = [*log]
    dice.shuffle(shuffled)
    replay(other, shuffled, 0)
    assert set(one.entries()) == set(other.entries())


@settings(deadline=None)
@given(st.lists(entry, max_size=10), st.lists(st.one_of(st.none(), entry), max_size=12), st.integers(0, 4))
def test_parts_of_a_snapshot_of_different_moments_and_the_log_are_the_state_at_its_end(before, during, back):
    live, log = AccessEntries(), list[Entry]()
    keyed_entries.ENTRIES_PER_SLICE, usual = 1, keyed_entries.ENTRIES_PER_SLICE
    try:
        for one in before:
            live.apply(one, len(log))
            log.append(one)
        covered = max(0, len(log) - back)
        parts, slices = [], live.slices(covered)
        for one in during:
            if one is None:
                parts += [part for part in [next(slices, None)] if part is not None]
            else:
                live.apply(one, len(log))
                log.append(one)
        parts += slices
    finally:
        keyed_entries.ENTRIES_PER_SLICE = usual
    found = AccessEntries()
    assert found.load(b"".join(parts), covered)
    replay(found, log, covered)
    assert found.kept() == live.kept()
    whole = AccessEntries()
    replay(whole, log, 0)
    assert whole.kept() == live.kept()


def test_a_follower_gets_every_entry_once_in_pages():
    state = AccessEntries()
    for number in range(10):
        state.apply(user(f"u{number}", 1), number)
    state.apply(user("u3", 2), 10)
    version, names = -1, list[str]()
    while True:
        page = state.since(version, 100)
        names += [decode_entry(data).name for data in page.entries]
        version = page.version
        if not page.has_more:
            break
        assert len(page.entries) < 10
    assert names == ["u0", "u1", "u2", "u4", "u5", "u6", "u7", "u8", "u9", "u3"]
    assert state.since(version, 100) == (state.version, [], False)
    state.apply(user("u0", 5, None), 11)
    assert [decode_entry(data).name for data in state.since(version, 100).entries] == ["u0"]


def test_the_pin_is_the_lowest_newest_record():
    state = AccessEntries()
    assert state.pin() is None
    state.apply(user("a", 1), 100)
    state.apply(user("b", 1), 200)
    assert state.pin() == 100
    state.apply(user("a", 1), 300)
    assert state.pin() == 200
    state.apply(user("b", 0), 400)
    assert state.pin() == 200, "an older entry says nothing of the newest record"
    assert [one.name for one in state.below(250)] == ["b"]


def test_an_unreadable_record_changes_nothing_and_is_counted():
    state = AccessEntries()
    state.apply(user("a", 1), 0)

    def damaged(position: int, _size: int) -> bytes:
        raise DamagedRecord(position, "test")

    state.take(scanned(1), damaged)
    record = build_record(ACCESS_TOPIC.encode(), 0, 0, 0, b"not JSON", b"", 0, 0, 0, HOST, 0, HOST)
    state.take(scanned(2), lambda _position, _size: record)
    state.take(scanned(3, "orders"), damaged)
    assert (state.unreadable, [one.name for one in state.entries()]) == (2, ["a"])


def test_a_snapshot_of_another_form_is_refused_and_leaves_nothing():
    state = AccessEntries()
    state.apply(user("a", 1), 0)
    data = b"".join(state.slices(1))
    for broken in (data[:-1], data[:5], data + b"x", data[:12] + b"x" + data[13:]):
        other = AccessEntries()
        assert not other.load(broken, 1)
        assert other.kept() == {}


def test_an_adopted_entry_is_appended_by_the_next_retention_unless_the_log_has_it():
    state = AccessEntries()
    for position, name in ((500, "a"), (600, "b")):
        state.apply(user(name, 1), position)
    again = AccessEntries()
    again.adopt(b"".join(state.slices(700)))
    replay(again, [user("b", 1)], 0)
    assert again.pin() == NOT_IN_LOG
    assert {key.name: kept.position for key, kept in again.kept().items()} == {"a": NOT_IN_LOG, "b": 0}
    again.adopt(b"no snapshot")
    assert len(again) == 2


def test_dropped_entries_are_forgotten():
    state = AccessEntries()
    state.apply(user("a", 1), 0)
    state.drop([Key(Kind.USER, "a"), Key(Kind.USER, "unknown")])
    assert state.pin() is None
    assert state.since(-1, 100).entries == []
