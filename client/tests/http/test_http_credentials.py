"""How a client over HTTP proves its user: a token, or an access key with its secret, from options or from the environment."""

from __future__ import annotations

import base64

import httpx
import pytest

from gantrymq.errors import ConfigurationError
from gantrymq.http import Producer, blocking
from gantrymq.http.settings import HttpSettings

VARIABLES = ("GANTRY_TOKEN", "GANTRY_ACCESS_KEY", "GANTRY_SECRET_KEY")


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def settings(**given: str) -> HttpSettings:
    return HttpSettings(http="http://x", **given)


def test_without_credentials_no_header_is_sent() -> None:
    assert settings().authorization() == ""


def test_a_token_is_a_bearer_token() -> None:
    assert settings(token="gantry_1").authorization() == "Bearer gantry_1"


def test_an_access_key_and_its_secret_are_basic_in_utf_8() -> None:
    kind, _, words = settings(access_key="Ä", secret_key="ß:1").authorization().partition(" ")
    assert kind == "Basic"
    assert base64.b64decode(words).decode() == "Ä:ß:1"


@pytest.mark.parametrize(
    ("environment", "given", "sent"),
    [
        ({"GANTRY_TOKEN": "t"}, {}, "Bearer t"),
        ({"GANTRY_TOKEN": "t"}, {"token": "u"}, "Bearer u"),
        ({"GANTRY_TOKEN": "t"}, {"access_key": "a", "secret_key": "b"}, "Basic YTpi"),
        ({"GANTRY_ACCESS_KEY": "a", "GANTRY_SECRET_KEY": "b"}, {}, "Basic YTpi"),
        ({"GANTRY_ACCESS_KEY": "a", "GANTRY_SECRET_KEY": "b"}, {"token": "t"}, "Bearer t"),
        ({"GANTRY_ACCESS_KEY": "a", "GANTRY_SECRET_KEY": "b", "GANTRY_TOKEN": "t"}, {}, "Bearer t"),
    ],
)
def test_options_count_before_the_environment_and_tokens_before_keys(
    environment: dict[str, str], given: dict[str, str], sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert settings(**given).authorization() == sent


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"access_key": "a"}, "give both or neither"),
        ({"access_key": "a", "secret_key": "b", "token": "t"}, "give one of the two"),
        ({"access_key": "a:b", "secret_key": "b"}, "a user name with a colon"),
    ],
)
def test_wrong_credentials_are_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        settings(**given)


def test_settings_show_no_secret() -> None:
    shown = repr(settings(access_key="me", secret_key="hidden")) + repr(settings(token="hidden"))
    assert "me" in shown
    assert "hidden" not in shown


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_call_carries_them() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization", ""))
        return httpx.Response(200, json={"brokers": []})

    producer = Producer(http="http://x", access_key="a", secret_key="b")
    await producer.start()
    client = producer._gateway._client
    assert client is not None
    async with httpx.AsyncClient(
        base_url="http://x", headers=client.headers, transport=httpx.MockTransport(answer)
    ) as replaced:
        await client.aclose()
        producer._gateway._client = replaced
        await producer.queues("t")
    assert seen == ["Basic YTpi"]


def test_the_blocking_clients_take_them_too() -> None:
    with blocking.Producer(http="http://x", access_key="a", secret_key="b") as producer:
        assert producer._inner.settings.authorization() == "Basic YTpi"
