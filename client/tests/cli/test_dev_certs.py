"""`gantrymq access dev-certs`: files that servers and clients accept."""

from __future__ import annotations

import json
import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from gantrymq.cli.main import main

FILES = ["ca.key", "ca.pem", "client.key", "client.pem", "server.key", "server.pem"]


def make(*words: str) -> int:
    return main(["access", "dev-certs", *words])


def names_of(path: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(one.value) for one in names]


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Shake hands in memory. Returns the server's side."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname=host)
    theirs = server.wrap_bio(there, back, server_side=True)
    for _ in range(3):
        for one in (ours, theirs):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return theirs


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_both_sides_accept_the_files(tmp_path: Path, host: str) -> None:
    assert make(str(tmp_path / "certs")) == 0
    folder = tmp_path / "certs"
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    client = ssl.create_default_context(cafile=folder / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(folder / "client.pem", folder / "client.key")
    shown = handshake(server, client, host).getpeercert()
    assert shown is not None
    assert shown["subjectAltName"] == (("DNS", "client"),)


def test_only_the_owner_can_read_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "deep" / "certs"
    assert make(str(folder), "--json") == 0
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    shown = json.loads(capsys.readouterr().out)
    assert sorted(shown["files"]) == FILES
    assert shown["names"][:3] == ["localhost", "127.0.0.1", "::1"]
    assert "PRIVATE KEY" not in str(shown)


def test_existing_files_are_kept_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make(str(tmp_path)) == 0
    before = (tmp_path / "ca.pem").read_bytes()
    (tmp_path / "server.pem").unlink()
    assert make(str(tmp_path)) == 1
    assert "--force overwrites them" in capsys.readouterr().err
    assert (tmp_path / "ca.pem").read_bytes() == before
    assert not (tmp_path / "server.pem").exists()
    assert make(str(tmp_path), "--force") == 0
    assert (tmp_path / "ca.pem").read_bytes() != before
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_names_can_be_given(tmp_path: Path) -> None:
    assert make(str(tmp_path), "--name", "broker.example", "--name", "10.0.0.7", "--client", "orders") == 0
    names = names_of(tmp_path / "server.pem")
    assert names[-2:] == ["broker.example", "10.0.0.7"]
    assert {"localhost", "127.0.0.1", "::1"} <= set(names), "Gantry's own services connect to these"
    assert names_of(tmp_path / "client.pem") == ["orders"]


def test_a_name_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make(str(tmp_path / "certs"), "--name", "bücher") == 2
    assert "not a host name" in capsys.readouterr().err
    assert not (tmp_path / "certs").exists()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert make(str(tmp_path / "file" / "certs")) == 1
    assert "cannot write to" in capsys.readouterr().err


def test_openssl_verifies_them(tmp_path: Path) -> None:
    assert make(str(tmp_path)) == 0
    for purpose, file in (("sslserver", "server.pem"), ("sslclient", "client.pem")):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.pem", file]
        try:
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("openssl is not installed")
        assert done.returncode == 0, done.stderr
