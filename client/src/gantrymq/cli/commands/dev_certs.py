"""`gantrymq access dev-certs`: makes certificates for trying TLS. Needs no gateway.

A command of the client, because clients on other machines need certificates too, and because the launcher may use the standard library
only. The package `cryptography` is part of a checkout; an installed client gets it with gantrymq[certs].
"""

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import FAILED, WRONG_USE, Stop

LOCAL = ("localhost", "127.0.0.1", "::1")
PRIVATE = 0o600
EXAMPLES = """
gantrymq access dev-certs certs
gantrymq access dev-certs certs --name broker.example --name 10.0.0.7 --client orders --force
"""

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the files; it is created.")]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Another host name or IP address of the servers, besides localhost, 127.0.0.1, ::1 and this host's name. As often as needed.",
        show_default=False,
    ),
]
Client = Annotated[
    str, typer.Option("--client", metavar="NAME", help="Name in the client certificate: a user's name.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files of an earlier run.")]


def add_dev_certs(access: typer.Typer) -> None:
    """Add the command."""
    command(access, "dev-certs", EXAMPLES)(dev_certs)


def dev_certs(
    session: Session,
    directory: Directory,
    name: Names = None,
    client: Client = "client",
    force: Force = False,
) -> None:
    """Make a local authority, a server certificate and a client certificate, for trying TLS."""
    more: list[str] = name or []
    names = list(dict.fromkeys([*LOCAL, socket.gethostname(), *more]))
    contents = made(names, client)
    paths = {file: directory.absolute() / file for file in contents}
    there = [str(path) for path in paths.values() if path.exists()]
    if there and not force:
        raise Stop(f"{', '.join(there)} exist; --force overwrites them", FAILED)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, content in contents.items():
            write_private(paths[file], content)
    except OSError as error:
        raise Stop(f"cannot write to {directory}: {error.strerror}", FAILED) from None
    screen = session.screen
    shown = {"directory": str(directory), "names": names, "client": client, "files": list(contents)}

    def people() -> None:
        screen.table(("file", "what it is"), [(str(paths[file]), WHAT[file]) for file in contents])
        screen.line(
            f"\nservers:  --set tls_cert_file={paths['server.pem']} --set tls_key_file={paths['server.key']}"
        )
        screen.line(f"clients:  GANTRY_TLS=1 GANTRY_TLS_CA_FILE={paths['ca.pem']}")

    screen.show(shown, people)


WHAT = {
    "ca.pem": "the authority: give it to clients",
    "ca.key": "its key: signs more certificates",
    "server.pem": "certificate of the servers",
    "server.key": "its key",
    "client.pem": "certificate of a client",
    "client.key": "its key",
}


def made(names: list[str], client: str) -> dict[str, bytes]:
    """Return the contents of all files. Raises Stop for an invalid name."""
    try:
        from gantrymq.cli.certificates import Authority
    except ModuleNotFoundError as error:
        if error.name != "cryptography":
            raise
        raise Stop("cryptography is missing: pip install 'gantrymq[certs]'", FAILED) from None
    authority = Authority()
    try:
        server, user = authority.issue(names), authority.issue([client], is_client=True)
    except ValueError as error:
        raise Stop(f"not a host name or an address: {error}", WRONG_USE) from None
    own = authority.pair
    return {
        "ca.pem": own.certificate, "ca.key": own.key, "server.pem": server.certificate, "server.key": server.key,
        "client.pem": user.certificate, "client.key": user.key,
    }  # fmt: skip


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, at once: a reader finds the old content or the new one. Raises OSError."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
