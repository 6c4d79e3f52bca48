"""The certificate of a process: reading, renewal, refusal, expiry."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from gantry_chassis.certificates import CertificateRefused, OutgoingFiles, ServerCertificate, open_certificate
from gantry_chassis.machine import private_files
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.process import Life
from gantry_chassis.settings.loading import SettingsRefused, load_settings
from gantry_chassis.settings.tls import TlsSettings, add_tls
from gantry_chassis.start_refusal import StartRefused

pytestmark = pytest.mark.anyio
DAY = 86_400.0


def put(folder: Path, pair: Any) -> None:
    (folder / "server.pem").write_bytes(pair.certificate)
    (folder / "server.key").write_bytes(pair.key)


def settings(folder: Path, **others: Any) -> TlsSettings:
    return TlsSettings(
        tls_cert_file=str(folder / "server.pem"), tls_key_file=str(folder / "server.key"), **others
    )


async def looks(certificate: ServerCertificate, count: int = 2) -> None:
    """Look this often: a change is read when it was seen twice."""
    for _ in range(count):
        await certificate.look()


def serial(certificate: ServerCertificate, authority: Any) -> str:
    """Return the serial number that a client gets."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=authority.certificate.decode())
    client.check_hostname = False
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there)
    theirs = certificate.context().wrap_bio(there, back, server_side=True)
    for _ in range(3):
        for one in (ours, theirs):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = ours.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


async def test_a_renewal_with_the_same_key_is_read(tmp_path: Path, authority: Any) -> None:
    first = authority.issue(["a"])
    put(tmp_path, first)
    certificate = ServerCertificate(settings(tmp_path), time.time)
    before = serial(certificate, authority)
    await looks(certificate, 3)
    assert (serial(certificate, authority), certificate.reloads) == (before, 0)
    put(tmp_path, authority.issue(["a"], key=first.key))
    await looks(certificate)
    assert serial(certificate, authority) != before
    assert (certificate.reloads, certificate.reload_failures) == (1, 0)


async def test_the_two_files_of_a_renewal_may_be_replaced_one_after_the_other(
    tmp_path: Path, authority: Any
) -> None:
    put(tmp_path, authority.issue(["a"]))
    certificate = ServerCertificate(settings(tmp_path), time.time)
    before = serial(certificate, authority)
    renewed = authority.issue(["a"])
    (tmp_path / "server.pem").write_bytes(renewed.certificate)
    await certificate.look()
    (tmp_path / "server.key").write_bytes(renewed.key)
    await looks(certificate)
    assert serial(certificate, authority) != before
    assert (certificate.reloads, certificate.reload_failures) == (1, 0)


async def test_a_bad_pair_is_refused_once_and_the_old_one_stays(tmp_path: Path, authority: Any) -> None:
    put(tmp_path, authority.issue(["a"]))
    certificate = ServerCertificate(settings(tmp_path), time.time)
    before = serial(certificate, authority)
    bad: list[Callable[[], object]] = [
        lambda: (tmp_path / "server.pem").write_bytes(authority.issue(["b"]).certificate),
        lambda: (tmp_path / "server.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\nhalf"),
        lambda: (tmp_path / "server.key").write_bytes(b""),
        (tmp_path / "server.key").unlink,
        lambda: put(tmp_path, authority.issue(["a"], days=-1)),
    ]
    for count, spoil in enumerate(bad, start=1):
        spoil()
        await looks(certificate, 4)
        assert (certificate.reload_failures, certificate.reloads) == (count, 0)
        assert serial(certificate, authority) == before
    put(tmp_path, authority.issue(["a"]))
    await looks(certificate)
    assert certificate.reloads == 1
    assert serial(certificate, authority) != before


async def test_a_renewal_that_begins_later_is_used_from_then_on(tmp_path: Path, authority: Any) -> None:
    """Clients refuse it before: the clocks differ, or it was made for the day on which the old one ends."""
    put(tmp_path, authority.issue(["a"]))
    ahead_seconds = 30 * DAY
    certificate = ServerCertificate(settings(tmp_path), lambda: time.time() - ahead_seconds)
    before = serial(certificate, authority)
    put(tmp_path, authority.issue(["a"]))
    await looks(certificate, 4)
    assert (serial(certificate, authority), certificate.reload_failures) == (before, 1)
    ahead_seconds = 0.0
    await looks(certificate)
    assert serial(certificate, authority) != before
    assert (certificate.reloads, certificate.reload_failures) == (1, 1)


async def test_a_change_of_client_authorities_alone_is_read(tmp_path: Path, authority: Any) -> None:
    put(tmp_path, authority.issue(["a"]))
    clients = tmp_path / "clients.pem"
    clients.write_bytes(authority.certificate)
    certificate = ServerCertificate(
        settings(tmp_path, tls_client_ca_file=str(clients), tls_client_auth="require"), time.time
    )
    assert certificate.context().verify_mode == ssl.CERT_REQUIRED
    clients.write_bytes(authority.certificate + authority.issue(["x"]).certificate)
    await looks(certificate)
    assert certificate.reloads == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("auth", ["optional", "require"])
def test_no_client_continues_an_earlier_session_whose_certificate_may_have_expired(
    tmp_path: Path, authority: Any, version: ssl.TLSVersion, auth: str
) -> None:
    put(tmp_path, authority.issue(["a"]))
    clients, pair = tmp_path / "clients.pem", authority.issue(["alice"], is_client=True)
    clients.write_bytes(authority.certificate)
    (tmp_path / "client.pem").write_bytes(pair.certificate + pair.key)
    certificate = ServerCertificate(
        settings(tmp_path, tls_client_ca_file=str(clients), tls_client_auth=auth), time.time
    )
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    client.maximum_version = version
    client.load_cert_chain(tmp_path / "client.pem")
    session = None
    for _ in range(2):
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = client.wrap_bio(back, there, server_hostname="a", session=session)
        theirs = certificate.context().wrap_bio(there, back, server_side=True)
        for _ in range(3):
            for one in (ours, theirs):
                with suppress(ssl.SSLWantReadError):
                    one.do_handshake()
        theirs.write(b"x")
        assert ours.read(1) == b"x"
        assert theirs.getpeercert()["subjectAltName"] == (("DNS", "alice"),)
        assert not ours.session_reused
        session = ours.session


def test_an_expired_certificate_is_used_at_the_start_and_its_age_shown(
    tmp_path: Path, authority: Any
) -> None:
    put(tmp_path, authority.issue(["a"], days=-2))
    certificate = ServerCertificate(settings(tmp_path), time.time)
    assert -3 * DAY < certificate.seconds_left < -1.9 * DAY
    put(tmp_path, authority.issue(["a"], days=30))
    assert 29 * DAY < ServerCertificate(settings(tmp_path), time.time).seconds_left < 30 * DAY


def test_only_modern_versions_and_ciphers_are_spoken(tmp_path: Path, authority: Any) -> None:
    put(tmp_path, authority.issue(["a"]))
    context = ServerCertificate(settings(tmp_path), time.time).context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert all(name.startswith(("TLS_", "ECDHE-")) for name in names)
    assert not any("CBC" in name or name.endswith("-SHA") for name in names)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder, _: (folder / "server.pem").unlink(), r"cannot read .*server.pem: No such file"),
        (lambda folder, _: (folder / "server.key").unlink(), r"cannot read .*server.key: No such file"),
        (lambda folder, _: (folder / "server.pem").write_text("x"), r"server.pem and .*server.key"),
        (
            lambda folder, authority: (folder / "server.key").write_bytes(authority.issue(["b"]).key),
            "the key belongs to another certificate",
        ),
        (lambda folder, _: encrypt(folder / "server.key"), "it is encrypted: set tls_key_password_file"),
    ],
)
def test_files_that_cannot_be_used_refuse_the_start(
    tmp_path: Path, authority: Any, spoil: Callable[[Path, Any], object], words: str
) -> None:
    put(tmp_path, authority.issue(["a"]))
    spoil(tmp_path, authority)
    with pytest.raises(CertificateRefused, match=words):
        ServerCertificate(settings(tmp_path), time.time)


def encrypt(path: Path, password: bytes = b"sesame") -> None:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )
    )


def test_an_encrypted_key_needs_the_right_password(tmp_path: Path, authority: Any) -> None:
    put(tmp_path, authority.issue(["a"]))
    encrypt(tmp_path / "server.key")
    password = tmp_path / "password"
    password.write_text("sesame\n")
    with_password = settings(tmp_path, tls_key_password_file=str(password))
    assert ServerCertificate(with_password, time.time).seconds_left > 0
    password.write_text("open")
    with pytest.raises(CertificateRefused, match="its password is wrong"):
        ServerCertificate(with_password, time.time)


async def test_a_service_shows_its_certificate_in_metrics(tmp_path: Path, authority: Any) -> None:
    put(tmp_path, authority.issue(["a"], days=10))
    life, metrics = Life(machine()), Metrics()
    certificate = open_certificate(settings(tmp_path), life, metrics, "some")
    assert certificate is not None
    certificate.context()
    text = (await metrics.text()).decode()
    [left] = [line for line in text.splitlines() if line.startswith("some_tls_certificate_seconds ")]
    assert 9 * DAY < float(left.split()[1]) < 10 * DAY
    assert "some_tls_handshakes_total 1.0" in text
    assert "some_tls_reload_failures_total 0.0" in text
    life.stop()
    await life.end_loops()


async def test_a_service_watches_its_files(tmp_path: Path, authority: Any) -> None:
    put(tmp_path, authority.issue(["a"]))
    life = Life(machine())
    certificate = open_certificate(settings(tmp_path), life, Metrics(), "some")
    assert certificate is not None
    put(tmp_path, authority.issue(["b"]))
    began = time.monotonic()
    while not certificate.reloads:
        assert time.monotonic() - began < 60
        await life.sleep(0.05)
    life.stop()
    await life.end_loops()


async def test_without_certificate_or_disabled_there_is_none(tmp_path: Path) -> None:
    life = Life(machine())
    assert open_certificate(TlsSettings(), life, Metrics(), "some") is None
    assert open_certificate(settings(tmp_path, tls_mode="disabled"), life, Metrics(), "some") is None
    with pytest.raises(StartRefused, match="TLS: cannot read"):
        open_certificate(settings(tmp_path), life, Metrics(), "some")


def test_the_mode_follows_the_certificate(tmp_path: Path) -> None:
    assert TlsSettings().tls_mode_used == "disabled"
    assert settings(tmp_path).tls_mode_used == "permissive"
    assert settings(tmp_path, tls_mode="enforcing").tls_mode_used == "enforcing"


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["tls_mode=enforcing"], "needs a certificate: set tls_cert_file"),
        (["tls_client_auth=require", "tls_cert_file=x"], "needs tls_client_ca_file"),
        (["tls_mode=maybe"], r"tls_mode \(from --set tls_mode\)"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(sets: list[str], words: str) -> None:
    argv = [word for one in sets for word in ("--set", one)]
    with pytest.raises(SettingsRefused, match=words):
        load_settings(TlsSettings, "SOME", argv, environ={})


def test_properties_of_rocketmq_are_settings() -> None:
    values: dict[str, str] = {}
    ignored: list[str] = []
    for name, value in {
        "tls.server.mode": "ENFORCING",
        "tls.server.certPath": "/c",
        "tls.server.keyPath": "/k",
        "tls.server.trustCertPath": "/t",
        "tls.server.need.client.auth": "Require",
        "tls.server.authClient": "true",
        "tls.enable": "True",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": "/a",
        "tls.test.mode.enable": "false",
        "tls.server.keyPassword": "",
    }.items():
        add_tls(values, ignored, name, value, "broker.conf")
    assert values == {
        "tls_mode": "enforcing",
        "tls_cert_file": "/c",
        "tls_key_file": "/k",
        "tls_client_ca_file": "/t",
        "tls_client_auth": "require",
        "tls_client": "true",
        "tls_ca_file": "/a",
    }
    assert load_settings(TlsSettings, "SOME", [], environ={}, read_file=None).tls_mode == ""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("tls.test.mode.enable", "true", "dev-certs"),
        ("tls.server.authClient", "false", "tls_client_ca_file"),
        ("tls.client.authServer", "FALSE", "tls_ca_file"),
        ("tls.server.keyPassword", "sesame", "tls_key_password_file"),
    ],
)
def test_properties_that_would_be_insecure_are_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingsRefused, match=words) as refused:
        add_tls({}, [], name, value, "broker.conf")
    assert "sesame" not in str(refused.value)


async def test_a_key_that_others_can_read_is_used_with_a_warning(
    tmp_path: Path, authority: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, authority.issue(["a"]))
    warned: list[str] = []

    class Log:
        def warning(self, _words: str, **fields: str) -> None:
            warned.append(fields["file"])

    monkeypatch.setattr(private_files, "_log", Log())
    key = tmp_path / "server.key"
    for mode, expected in ((0o600, []), (0o640, [str(key)])):
        key.chmod(mode)
        life = Life(machine())
        assert open_certificate(settings(tmp_path), life, Metrics(), "some") is not None
        life.stop()
        await life.end_loops()
        assert warned == expected


async def test_changed_files_of_outgoing_connections_that_are_refused_are_counted() -> None:
    metrics = Metrics()
    reports: list[Callable[[str], None]] = []

    def made(given: str, report: Callable[[str], None]) -> str:
        reports.append(report)
        return given

    outgoing = OutgoingFiles(metrics, "some")
    assert [outgoing.open(made, one) for one in ("pool", "hints")] == ["pool", "hints"]
    for report in reports:
        report("/c/client.pem: no certificate")
    assert "some_tls_client_reload_failures_total 2.0" in (await metrics.text()).decode()

    def refuses(_given: str, _report: Callable[[str], None]) -> None:
        raise ValueError("/c/client.pem: no certificate")

    with pytest.raises(StartRefused, match=r"TLS: /c/client\.pem"):
        outgoing.open(refuses, "pool")


@pytest.mark.parametrize(
    ("offered", "wanted", "chosen"),
    [((), ("h2", "http/1.1"), None), (("h2",), ("http/1.1", "h2"), "h2"), (("h2",), ("http/1.1",), None)],
)
async def test_a_port_chooses_only_protocols_that_it_offers_also_after_a_renewal(
    tmp_path: Path, authority: Any, offered: tuple[str, ...], wanted: list[str], chosen: str | None
) -> None:
    put(tmp_path, authority.issue(["a"]))
    certificate = ServerCertificate(settings(tmp_path), time.time)
    for _ in range(2):
        client = ssl.create_default_context(cadata=authority.certificate.decode())
        client.set_alpn_protocols(wanted)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = client.wrap_bio(back, there, server_hostname="a")
        theirs = certificate.context(offered).wrap_bio(there, back, server_side=True)
        for _ in range(3):
            for one in (ours, theirs):
                with suppress(ssl.SSLWantReadError):
                    one.do_handshake()
        assert ours.selected_alpn_protocol() == theirs.selected_alpn_protocol() == chosen
        put(tmp_path, authority.issue(["a"]))
        await looks(certificate)
    assert certificate.reloads == 2
