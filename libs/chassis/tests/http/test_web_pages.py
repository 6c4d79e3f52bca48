"""Which requests of web pages are accepted, by Host, Origin and Sec-Fetch-Site as browsers write them."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_chassis.http.web_pages import HOSTS_REMEMBERED_MAX, Refusal, WebPages

OURS = WebPages("::1", "mq.example.com, Gateway")
NAVIGATES = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def refusal_of(pages: WebPages, method: str = "POST", **headers: str) -> Refusal | None:
    return pages.refusal(
        method, {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    )


ports = st.one_of(st.just(""), st.integers(0, 65535).map(lambda port: f":{port}"))
addresses = st.one_of(st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(lambda ip: f"[{ip}]"))
names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9-]{0,10}[A-Za-z0-9])?(\.[a-z]{2,8}){0,3}\.?", fullmatch=True)


def is_ours(name: str) -> bool:
    plain = name.lower().removesuffix(".")
    try:
        ipaddress.ip_address(plain)
    except ValueError:
        return plain in {"localhost", "mq.example.com", "gateway", socket.gethostname().lower()}
    return True


@given(host=addresses, port=ports)
def test_an_address_is_accepted_because_no_owner_of_a_name_can_point_it_here(host: str, port: str) -> None:
    assert refusal_of(OURS, host=host + port) is None


@given(host=st.one_of(names, st.sampled_from(["localhost", "GATEWAY", "MQ.example.com."])), port=ports)
def test_a_name_is_accepted_exactly_if_it_is_ours(host: str, port: str) -> None:
    refusal = refusal_of(OURS, host=host + port)
    assert (refusal is None) is is_ours(host)
    assert refusal is None or (refusal.header == "Host" and "allowed_hosts" in refusal.words)


NO_HOSTS = """
|:8080|localhost:x|localhost:80:80|[::1|[::1]x|[localhost]x|a b|127.0.0.1.evil.com|evil.example#localhost|localhost@evil.example
|localhost,evil.example|2130706433.evil
"""


@pytest.mark.parametrize("host", NO_HOSTS.replace("\n", "").split("|"))
def test_an_invalid_host_is_refused(host: str) -> None:
    refusal = refusal_of(OURS, host=host)
    assert refusal is not None
    assert refusal.header == "Host"


origins = st.one_of(
    st.tuples(st.sampled_from(["http", "https"]), st.one_of(names, addresses), ports).map(
        lambda parts: f"{parts[0]}://{parts[1]}{parts[2]}"
    ),
    st.sampled_from(["null", "", "file://", "chrome-extension://gateway", "http://gateway:1", "*"]),
)
sites = st.sampled_from([None, "none", "same-origin", "same-site", "cross-site", "other", ""])
methods = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])


@given(
    method=methods, origin=origins, site=sites, host=st.sampled_from(["gateway", "gateway:8080", "[::1]:1"])
)
def test_only_pages_of_our_own_origin_may_call(method: str, origin: str, site: str | None, host: str) -> None:
    """Whatever the method: a page may not request what it may not read."""
    headers = {"host": host, "origin": origin} | ({} if site is None else {"sec_fetch_site": site})
    is_own = origin.lower() in {f"http://{host}", f"https://{host}"}
    refusal = refusal_of(OURS, method, **headers)
    assert (refusal is None) is (is_own and site in {None, "none", "same-origin"})
    assert refusal is None or refusal.header in {"Origin", "Sec-Fetch-Site"}


@given(method=methods, site=sites, mode=st.sampled_from(["navigate", "no-cors", "cors"]), frame=st.booleans())
def test_without_an_origin_another_site_may_only_link_here(
    method: str, site: str | None, mode: str, frame: bool
) -> None:
    headers = {
        "host": "localhost",
        "sec_fetch_mode": mode,
        "sec_fetch_dest": "iframe" if frame else "document",
    }
    headers |= {} if site is None else {"sec_fetch_site": site}
    is_visit = mode == "navigate" and method in {"GET", "HEAD"} and not frame
    is_taken = site in {None, "none", "same-origin"} or is_visit
    assert (refusal_of(OURS, method, **headers) is None) is is_taken


def test_a_program_without_these_headers_is_accepted() -> None:
    for method in ("GET", "POST", "DELETE"):
        assert refusal_of(OURS, method, host="127.0.0.1:8080") is None
        assert refusal_of(OURS, method) is None


def test_pages_of_configured_origins_may_call() -> None:
    some = WebPages("127.0.0.1", "", "https://shop.example, http://localhost:3000")
    for origin in ("https://shop.example", "http://localhost:3000"):
        assert refusal_of(some, host="localhost:8080", origin=origin, sec_fetch_site="cross-site") is None
    for origin in ("http://shop.example", "https://shop.example:444", "http://localhost:3001", "null"):
        refused = refusal_of(some, host="localhost:8080", origin=origin)
        assert refused is not None
        assert "cors_origins" in refused.words
    everybody = WebPages("127.0.0.1", "", "*")
    assert refusal_of(everybody, host="localhost", origin="null", sec_fetch_site="cross-site") is None
    assert refusal_of(everybody, host="localhost", sec_fetch_site="cross-site") is None
    assert refusal_of(everybody, host="evil.example", origin="http://evil.example") is not None


def test_any_host_is_accepted_when_configured() -> None:
    assert refusal_of(WebPages("127.0.0.1", "*"), host="anything.example") is None


def test_a_refusal_quotes_a_bounded_header_without_control_characters() -> None:
    refusal = OURS.refusal("POST", {b"host": b"\x1b[31m\xff" + b"a" * 10_000})
    assert refusal is not None
    assert refusal.words.isprintable()
    assert len(refusal.words) < 400


def test_changing_host_values_fill_no_memory() -> None:
    pages = WebPages("127.0.0.1")
    for port in range(2 * HOSTS_REMEMBERED_MAX):
        assert refusal_of(pages, host=f"localhost:{port}") is None
    assert len(pages._ours) == HOSTS_REMEMBERED_MAX
