"""The kept file: whole or refused, durable on return, and never empty by damage."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from broker_store.replication.epochs import Epoch, EpochTable
from broker_store.replication.kept_file import (
    FILE_BYTES_MAX,
    KeptFile,
    KeptUnreadable,
    decode_kept,
    encode_kept,
)
from broker_store.replication.register.record import Registered
from broker_store.replication.steps import Kept

STORE = "/store"
RECORD = Registered(3, "broker-a", 2, "a", ("a", "b"), 2, "a-1-7", "a-0-1")
OLD = Kept(3, RECORD, EpochTable((Epoch(1, 0), Epoch(2, 100))))
NEW = Kept(
    4, Registered(4, "broker-a", 3, "b", ("b",), 3, "b-1-9", "a-0-1"), EpochTable((Epoch(1, 0), Epoch(3, 90))), 4096, True
)  # fmt: skip
NAMES = st.from_regex(r"[%|a-zA-Z0-9_.:@-]{1,20}", fullmatch=True)
NUMBERS = st.integers(1, (1 << 63) - 1)


@st.composite
def kept_states(draw) -> Kept:
    epochs = sorted(draw(st.sets(st.integers(1, 1 << 62), max_size=5)))
    starts = sorted(draw(st.lists(st.integers(0, 1 << 62), min_size=len(epochs), max_size=len(epochs))))
    members = tuple(draw(st.lists(NAMES, min_size=1, max_size=9, unique=True)))
    record = Registered(
        draw(NUMBERS), draw(st.text(min_size=1, max_size=127).filter(_is_encodable)), draw(NUMBERS),
        draw(st.sampled_from(members)), members, draw(NUMBERS), "nonce", "origin",
    )  # fmt: skip
    newest = draw(st.sampled_from((None, record)))
    numbers = st.integers(0, (1 << 63) - 1)
    table = EpochTable(tuple(map(Epoch, epochs, starts)))
    return Kept(draw(numbers), newest, table, draw(numbers), draw(st.booleans()))


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@given(kept_states())
def test_what_is_kept_survives_the_file(kept: Kept):
    assert decode_kept(encode_kept(kept)) == kept


@given(kept_states(), st.data())
def test_any_changed_bit_and_any_torn_end_is_refused(kept: Kept, data):
    whole = encode_kept(kept)
    flipped = bytearray(whole)
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    for content in (bytes(flipped), whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"\0"):
        with pytest.raises(KeptUnreadable, match="is damaged"):
            decode_kept(content)


def test_the_bytes_of_format_1_are_as_described():
    assert Kept(7, None, EpochTable((Epoch(1, 0),))) == decode_kept(
        bytes.fromhex(
            "474b5054" "0001" "0000000000000007" "00000000"
            "47455054" "0001" "00000001" "0000000000000001" "0000000000000000" "04ba04c2" "99188ba1"
        )
    )  # fmt: skip


def test_the_bytes_of_format_2_are_as_described():
    content = encode_kept(Kept(7, None, EpochTable((Epoch(1, 0),)), 4096, True))
    assert content.hex() == (
        "474b5054" "0002" "0000000000000007" "0000000000001000" "01" "00000000"
        "47455054" "0001" "00000001" "0000000000000001" "0000000000000000" "04ba04c2" "00c8de4d"
    )  # fmt: skip


@pytest.mark.parametrize(("at", "byte"), [(14, 0x80), (22, 2), (23, 1)])
def test_numbers_beyond_their_bounds_are_refused(at, byte):
    content = bytearray(encode_kept(OLD))
    content[at] = byte
    content[-4:] = crc32(content[:-4]).to_bytes(4, "big")
    with pytest.raises(KeptUnreadable, match="is damaged"):
        decode_kept(bytes(content))


def test_a_missing_file_is_the_state_of_a_directory_that_never_belonged_to_a_group():
    assert KeptFile(SimulatedFiles(), STORE).kept == Kept()


def test_a_later_start_reads_what_was_written():
    files = SimulatedFiles()
    KeptFile(files, STORE).write(OLD)
    assert KeptFile(files, STORE).kept == OLD


def test_what_was_written_survives_every_power_cut_after_the_return():
    files = SimulatedFiles()
    kept = KeptFile(files, STORE)
    kept.write(OLD)
    kept.write(NEW)
    for state in files.crash_states(1000):
        assert KeptFile(state, STORE).kept == NEW


@pytest.mark.parametrize("before", [None, OLD])
def test_a_power_cut_at_any_step_leaves_the_old_state_or_the_new_one(before: Kept | None):
    step, is_over, found = 0, False, set()
    while not is_over:
        files = SimulatedFiles()
        kept = KeptFile(files, STORE)
        if before is not None:
            kept.write(before)
        files.crash_after = step
        try:
            kept.write(NEW)
            is_over = True
        except Crashed:
            step += 1
        for state in files.crash_states(200):
            found.add(KeptFile(state, STORE).kept)
            KeptFile(state, STORE).write(NEW)
            assert KeptFile(state, STORE).kept == NEW
    assert found == {before or Kept(), NEW}
    assert step > 4


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, encode_kept(OLD)[:-1], b"x" * (FILE_BYTES_MAX + 1)])
def test_a_damaged_file_names_itself_and_says_what_to_do(content: bytes):
    files = SimulatedFiles()
    files.make_dirs(f"{STORE}/gantry")
    files.open(f"{STORE}/gantry/replica", 0).pwrite(content, 0)
    with pytest.raises(KeptUnreadable, match=r"/store/gantry/replica is damaged .* a new name"):
        KeptFile(files, STORE)


def test_a_file_of_a_newer_gantry_is_refused_without_the_advice_for_a_damaged_one():
    content = bytearray(encode_kept(OLD))
    content[5] = 3
    with pytest.raises(KeptUnreadable, match="is damaged"):
        decode_kept(bytes(content))  # a changed bit is no other format
    content[-4:] = crc32(content[:-4]).to_bytes(4, "big")
    with pytest.raises(KeptUnreadable, match=r"has format 3.*start the version that wrote it"):
        decode_kept(bytes(content))


@pytest.mark.parametrize(
    "lower", [Kept(3, NEW.newest, NEW.table), Kept(4, RECORD, NEW.table), Kept(4, None, NEW.table)]
)
def test_neither_the_fence_nor_the_known_version_goes_down(lower: Kept):
    kept = KeptFile(SimulatedFiles(), STORE)
    kept.write(NEW)
    with pytest.raises(AssertionError):
        kept.write(lower)
