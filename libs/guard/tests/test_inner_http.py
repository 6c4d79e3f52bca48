"""Inner HTTP requests are proven for one request and half a minute."""

import pytest

from gantry_guard.inner_http import FRESH_MS, InnerHttp

FIGURES = "GET /figures"
NOW_MS = 1_700_000_000_000


def at(now_ms, *secrets):
    return InnerHttp(secrets or (b"s" * 32,), lambda: now_ms)


def test_a_header_proves_its_request_for_half_a_minute():
    header = at(NOW_MS).header(FIGURES)
    for age, is_good in (
        (0, True),
        (FRESH_MS, True),
        (-FRESH_MS, True),
        (FRESH_MS + 1, False),
        (-FRESH_MS - 1, False),
    ):
        assert at(NOW_MS + age).is_proof(header, FIGURES) is is_good
    assert not at(NOW_MS).is_proof(header, "POST /snapshots")


def test_an_older_key_of_the_file_is_accepted_too():
    old, new = b"o" * 32, b"n" * 32
    assert at(NOW_MS, new, old).is_proof(at(NOW_MS, old).header(FIGURES), FIGURES)
    assert at(NOW_MS, old, new).is_proof(at(NOW_MS, new, old).header(FIGURES), FIGURES)
    assert not at(NOW_MS, new).is_proof(at(NOW_MS, old).header(FIGURES), FIGURES)


@pytest.mark.parametrize(
    "header", [b"", b"Gantry", b"Gantry .", b"Gantry 1700000000000.", b"Gantry x.00", b"Basic eA==", b"gantry 1.2", b"Gantry " + b"9" * 5000 + b".0"]
)  # fmt: skip
def test_anything_else_is_no_proof(header):
    assert not at(NOW_MS).is_proof(header, FIGURES)


def test_a_header_whose_time_was_changed_is_no_proof():
    header = at(NOW_MS).header(FIGURES)
    later = header.replace(str(NOW_MS).encode(), str(NOW_MS + 60_000).encode())
    assert not at(NOW_MS + 60_000).is_proof(later, FIGURES)
