import base64
import contextlib
import hashlib
import hmac

import pytest
from guarded import key_file
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.secrets.hidden_text import HiddenText
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.cluster_keys import FILE_BYTES_MAX, ClusterKeys, _parsed

OLD, NEW = b"o" * 32, b"n" * 32


def hkdf(key, info):
    """RFC 5869 for 32 bytes of SHA-256, without salt."""
    extracted = hmac.digest(bytes(32), key, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def test_both_keys_are_derived_with_hkdf_and_the_first_is_the_current_one(tmp_path):
    keys = ClusterKeys.read(key_file(tmp_path / "keys", NEW, OLD))
    assert keys.inner == (hkdf(NEW, b"gantry/inner"), hkdf(OLD, b"gantry/inner"))
    sealed = keys.sealing.seal("alice", HiddenText("s"), bytes(12))
    assert sealed.split(".")[1] == "k0"


def test_a_secret_that_an_old_key_sealed_still_opens(tmp_path):
    before = ClusterKeys({"k1": OLD}).sealing.seal("alice", HiddenText("s"), bytes(12))
    after = ClusterKeys.read(key_file(tmp_path / "keys", NEW, OLD))
    assert after.sealing.open("alice", before) == HiddenText("s")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused_with_the_command_to_type(tmp_path, mode):
    path = key_file(tmp_path / "keys", NEW)
    path.chmod(mode)
    with pytest.raises(StartRefused, match=f"chmod 600 {path}"):
        ClusterKeys.read(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "0 keys"),
        ("# nothing\n\n", "0 keys"),
        ("k1\n", "line 1 is not"),
        ("k1 AAAA extra\n", "line 1 is not"),
        ("k!1 AAAA\n", "line 1 is not"),
        ("\nk1 ****\n", "the key in line 2 is not Base64"),
        ("k1 AAAA\n", "'k1' has 3 bytes"),
        (f"k1 {base64.b64encode(NEW).decode()}\n" * 2, "line 2 repeats the key id k1"),
        ("".join(f"k{n} {base64.b64encode(NEW).decode()}\n" for n in range(9)), "9 keys"),
        ("#" * (FILE_BYTES_MAX + 1), "larger"),
    ],
)
def test_a_file_of_another_form_is_refused_with_the_line(tmp_path, content, words):
    path = tmp_path / "keys"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(StartRefused, match=words):
        ClusterKeys.read(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(StartRefused, match="No such file"):
        ClusterKeys.read(tmp_path / "keys")


def test_no_text_shows_a_key(tmp_path):
    path = key_file(tmp_path / "keys", NEW)
    keys = ClusterKeys.read(path)
    text = base64.b64encode(NEW).decode()
    path.write_text(f"k1 {text}\nk2 {text[:-2]}\n")
    with pytest.raises(StartRefused) as refused:
        ClusterKeys.read(path)
    shown = f"{keys!r} {refused.value!r} {refused.value.__cause__!r}"
    assert text[:12] not in shown
    assert repr(keys) == "ClusterKeys(k0)"


@given(st.binary(max_size=400))
def test_any_content_is_read_or_refused_with_a_value_error(content):
    with contextlib.suppress(ValueError):
        ClusterKeys(_parsed(content))
