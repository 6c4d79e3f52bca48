"""The HTTP clients of this machine, each with its defaults, against a running gateway: their first message arrives with its body.

The gateway's own tests, which need no client, contain the bytes of each client's first request: `services/gateway/tests/connection/test_http_clients.py`.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
HERE = Path(__file__).parent / "http_clients"
SECONDS_MAX = 400
"""Go compiles its own HTTP client first, if it never did on this machine."""
ROW = "row of the table of HTTP clients"
"""The property under which conftest.py finds the result of a client, to print all at the end."""
MARK = "\n~status "


class Client(NamedTuple):
    """How to run a client: it makes calls one after another, each on its own connection."""

    program: str
    """Requirements: a program, or a package of this Python."""
    asks_version: tuple[str, ...]
    calls: Callable[[str, list[tuple[str, str]]], list[tuple[int, str]]]


def by_program(*words: str) -> Callable[[str, list[tuple[str, str]]], list[tuple[int, str]]]:
    """Run one of our programs once for all calls."""

    def calls(base: str, wanted: list[tuple[str, str]]) -> list[tuple[int, str]]:
        pairs = [word for call in wanted for word in call]
        lines = run(*words, base, *pairs).splitlines()
        return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]

    return calls


def by_command(*words: str) -> Callable[[str, list[tuple[str, str]]], list[tuple[int, str]]]:
    """Run a command once per call."""

    def calls(base: str, wanted: list[tuple[str, str]]) -> list[tuple[int, str]]:
        answers: list[tuple[int, str]] = []
        for path, body in wanted:
            out = run(*(word.format(body=body, url=base + path) for word in words))
            text, _, status = out.partition(MARK)
            answers.append((int(status or 200), text))
        return answers

    return calls


def run(*words: str) -> str:
    ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:] + ran.stdout[-500:]
    return ran.stdout


CURL = (
    "curl",
    "-sS",
    "-w",
    f"{MARK}%{{{{http_code}}}}",
    "-H",
    "Content-Type: application/json",
    "-d",
    "{body}",
)
WGET = (
    "wget",
    "-q",
    "-O",
    "-",
    "--header",
    "Content-Type: application/json",
    "--post-data",
    "{body}",
    "{url}",
)
JAVA, NODE, GO = HERE / "FirstCalls.java", HERE / "first_calls.mjs", HERE / "first_calls.go"
PYTHON = (sys.executable, str(HERE / "first_calls.py"))
CLIENTS = {
    "curl": Client("curl", ("curl", "--version"), by_command(*CURL, "{url}")),
    "curl --http2": Client("curl", ("curl", "--version"), by_command(*CURL, "--http2", "{url}")),
    "curl --http1.0": Client("curl", ("curl", "--version"), by_command(*CURL, "--http1.0", "{url}")),
    "curl chunked": Client(
        "curl", ("curl", "--version"), by_command(*CURL, "-H", "Transfer-Encoding: chunked", "{url}")
    ),
    "curl Expect": Client(
        "curl", ("curl", "--version"), by_command(*CURL, "-H", "Expect: 100-continue", "{url}")
    ),
    "wget": Client("wget", ("wget", "--version"), by_command(*WGET)),
    "Java HttpClient": Client("java", ("java", "--version"), by_program("java", str(JAVA), "client")),
    "Java HttpURLConnection": Client("java", ("java", "--version"), by_program("java", str(JAVA), "url")),
    "Node fetch (undici)": Client("node", ("node", "--version"), by_program("node", str(NODE), "fetch")),
    "Node http": Client("node", ("node", "--version"), by_program("node", str(NODE), "http")),
    "Go net/http": Client("go", ("go", "version"), by_program("go", "run", str(GO))),
    "Perl HTTP::Tiny": Client(
        "perl",
        ("perl", "-MHTTP::Tiny", "-e", "print HTTP::Tiny->VERSION"),
        by_program("perl", str(HERE / "first_calls.pl")),
    ),
    "Python urllib": Client(sys.executable, (sys.executable, "--version"), by_program(*PYTHON, "urllib")),
    "Python http.client": Client(
        sys.executable, (sys.executable, "--version"), by_program(*PYTHON, "http.client")
    ),
    "httpx": Client("httpx", (), by_program(*PYTHON, "httpx")),
    "requests": Client("requests", (), by_program(*PYTHON, "requests")),
    "urllib3": Client("urllib3", (), by_program(*PYTHON, "urllib3")),
    "aiohttp": Client("aiohttp", (), by_program(*PYTHON, "aiohttp")),
}


def version_of(client: Client) -> str | None:
    """Return the version of a client, or None if it is not installed."""
    if not client.asks_version:
        return version(client.program) if importlib.util.find_spec(client.program) else None
    if shutil.which(client.program) is None:
        return None
    ran = subprocess.run(client.asks_version, capture_output=True, text=True, timeout=60, check=False)
    return (ran.stdout or ran.stderr).splitlines()[0][:60] if ran.returncode == 0 else None


def call(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_first_calls_of_a_client_have_the_effect_of_their_bodies(
    name: str, system: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    client = CLIENTS[name]
    found = version_of(client)
    if found is None:
        record_property(ROW, (name, "not installed", "not run"))
        pytest.skip(
            f"{client.program} is not installed; the bytes of its first request are tested all the same"
        )
    record_property(ROW, (name, found, "FAILED"))
    topic = "client-" + "".join(letter if letter.isalnum() else "-" for letter in name)
    http = system["http"]
    call("PUT", f"{http}/v1/topics/{topic}")
    call("PUT", f"{http}/v1/groups/{topic}", {})
    sent = {"messages": [{"body": "hällo", "properties": {"by": name}}]}
    wanted: list[tuple[str, object]] = [
        (f"/v1/topics/{topic}/messages", sent),
        (f"/v1/groups/{topic}/deadLetters:redrive", {"dryRun": True}),
        (f"/v1/topics/{topic}/groups/{topic}/messages:receive", {"maxMessages": 1, "invisibleSeconds": 600}),
    ]
    answers = client.calls(http, [(path, json.dumps(body)) for path, body in wanted])
    assert [status for status, _ in answers] == [200] * 3, answers
    stored, redrive, received = [json.loads(text) for _, text in answers]
    assert stored["results"][0]["status"] == "SEND_OK"
    assert redrive["dryRun"] is True, "without its optional body the call would start a real redrive"
    assert call("GET", f"{http}/v1/tasks/{redrive['id']}")["dryRun"] is True
    (message,) = received["messages"]
    assert (message["body"], message["properties"]) == ("hällo", {"by": name})
    record_property(ROW, (name, found, "send, redrive with dryRun, receive: ok"))
