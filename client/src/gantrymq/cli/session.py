"""The session of a command: the gateway to call and the screen to print on; and how a function becomes a command."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
from typer.core import TyperCommand

from gantry_link.connections.client_tls import ClientTlsFiles
from gantrymq.cli.calls import DEFAULT_HTTP, Calls, Query, base_of, path_of
from gantrymq.cli.credentials import authorization_of
from gantrymq.cli.screen import Screen
from gantrymq.cli.stops import FAILED, UNREACHABLE, Stop
from gantrymq.cli.wording import NAME, as_started, help_words

Words = ParamSpec("Words")
Http = Annotated[
    str,
    typer.Option(
        "--http",
        envvar="GANTRY_HTTP",
        metavar="URL",
        help=f"Address of the gateway; default: that of the system on --data, in a checkout on ./data, else {DEFAULT_HTTP}.",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Use the system that ./gantry up --data DIR started on this machine.",
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="GANTRY_TOKEN",
        metavar="TOKEN",
        help="Token for the gateway, if it requires one.",
        show_default=False,
    ),
]
AccessKey = Annotated[
    str,
    typer.Option(
        "--access-key",
        envvar="GANTRY_ACCESS_KEY",
        metavar="USER",
        help="User instead of a token; its secret is that of --secret-file or GANTRY_SECRET_KEY, else typed.",
        show_default=False,
    ),
]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-file", metavar="FILE", help="File with the secret of --access-key; - is standard input."
    ),
]
CaFile = Annotated[
    str,
    typer.Option(
        "--ca-file",
        envvar="GANTRY_TLS_CA_FILE",
        metavar="FILE",
        help="With https: PEM file of the trusted authorities; default: those of the system.",
        show_default=False,
    ),
]
CertFile = Annotated[
    str,
    typer.Option(
        "--cert-file",
        envvar="GANTRY_TLS_CERT_FILE",
        metavar="FILE",
        help="With https: PEM file of the certificate to show.",
        show_default=False,
    ),
]
KeyFile = Annotated[
    str,
    typer.Option(
        "--key-file",
        envvar="GANTRY_TLS_KEY_FILE",
        metavar="FILE",
        help="PEM file of its key; default: the key is in --cert-file.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


class Command(TyperCommand):
    """A command whose --help shows names as they are typed."""

    def get_help(self, ctx: Any) -> str:
        """Return the text of --help."""
        return help_words(super().get_help(ctx))


class Session:
    """The state of one command line."""

    def __init__(
        self, base: str, authorization: str, files: ClientTlsFiles, data: Path | None, *, as_json: bool
    ) -> None:
        """Use the header `authorization`, if it is not empty, and for https the TLS `files`. `data` is the directory of a system on this machine."""
        self.data = data
        self.calls: Calls = Calls(base, authorization, files)
        self.screen: Screen = Screen(as_json=as_json)

    def get(self, path: str, *, hold_seconds: float = 0, **query: Query) -> Any:
        """Call GET. Raises Stop."""
        return self.calls.call("GET", path, hold_seconds=hold_seconds, is_report=False, **query)

    def post(self, path: str, body: Any = None, *, hold_seconds: float = 0) -> Any:
        """Call POST. Raises Stop."""
        return self.calls.call("POST", path, {} if body is None else body, hold_seconds=hold_seconds)

    def put(self, path: str, body: Any) -> Any:
        """Call PUT. Raises Stop."""
        return self.calls.call("PUT", path, body)

    def warn_missing(self, missing: list[str]) -> None:
        """Report the brokers that could not be asked."""
        if missing:
            self.screen.say(f"not asked, because down: {', '.join(missing)}")

    def warn_away(self, kind: str, *, is_empty: bool) -> None:
        """Report the brokers that could not be asked. Raises Stop if nothing is left to list."""
        missing: list[str] = self.get(path_of("cluster"))["missing"]
        if missing and is_empty:
            words = f"cannot list any {kind}: {', '.join(missing)} down"
            raise Stop(f"{words}; gantrymq doctor looks for the reason", UNREACHABLE)
        self.warn_missing(missing)

    def confirm(self, question: str, *, is_sure: bool) -> None:
        """Ask for confirmation; programs pass --yes. Raises Stop."""
        if is_sure:
            return
        if not sys.stdin.isatty():
            raise Stop(f"{question} There is no terminal to ask: use --yes", FAILED)
        if not typer.confirm(question, err=True):
            raise Stop("nothing was done", FAILED)


def gateway_of(http: str, data: Path | None) -> str:
    """Return the address of the gateway: of --http or GANTRY_HTTP, else of the system on a data directory. Raises Stop."""
    if http:
        if data is not None:
            named = "GANTRY_HTTP" if http == os.environ.get("GANTRY_HTTP") else "--http"
            sys.stderr.write(f"{NAME}: {named} gives the gateway's address ({http}), so --data is ignored\n")
        return http
    if data is None:
        return DEFAULT_HTTP
    from gantrymq.systems.checkout import SystemFailed, status_of

    try:
        state = status_of(data.absolute())
    except SystemFailed as error:
        words = (
            f"cannot find the gateway of the system on --data {data} ({str(error).removeprefix('gantry: ')})"
        )
        raise Stop(
            f"{words}: start one with ./gantry up --data {data}, or give --http", UNREACHABLE
        ) from None
    return str(state["http"])


def command(
    app: typer.Typer, name: str, examples: str
) -> Callable[[Callable[Concatenate[Session, Words], None]], Callable[Concatenate[Session, Words], None]]:
    """Make a function a command of `app`: it gets a session first; --http, --token, --json and others are added, `examples` are the last part of its --help."""

    def add(
        function: Callable[Concatenate[Session, Words], None],
    ) -> Callable[Concatenate[Session, Words], None]:
        do: Callable[..., None] = function

        def run(
            *,
            http: str,
            data: Path | None,
            token: str,
            access_key: str,
            secret_file: Path | None,
            ca_file: str,
            cert_file: str,
            key_file: str,
            as_json: bool,
            **words: Any,
        ) -> None:
            base = base_of(gateway_of(http, data))
            authorization = authorization_of(base, token, access_key, secret_file)
            files = ClientTlsFiles(ca_file, cert_file, key_file)
            session = Session(base, authorization, files, None if http else data, as_json=as_json)
            try:
                do(session, **words)
            finally:
                session.calls.close()

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        given = [(one.name, one.default, one.annotation) for one in own]
        common = [
            ("http", "", Http), ("data", None, Data), ("token", "", Token), ("access_key", "", AccessKey),
            ("secret_file", None, SecretFile), ("ca_file", "", CaFile), ("cert_file", "", CertFile),
            ("key_file", "", KeyFile), ("as_json", False, Json),
        ]  # fmt: skip
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, default, annotation in [*given, *common]
        ]
        # typer reads these, as it would of a function that is written out
        run.__dict__["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        run.__doc__ = function.__doc__
        lines = "\n".join(f"  {line}" for line in as_started(examples).strip().splitlines())
        summary = (function.__doc__ or "").partition(".")[0]
        app.command(name, cls=Command, short_help=summary, epilog=f"\b\nExamples:\n{lines}")(run)
        return function

    return add
