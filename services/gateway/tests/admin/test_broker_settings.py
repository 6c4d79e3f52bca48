"""GET and PATCH /v1/brokers/{broker}/settings over in-memory stores."""

from __future__ import annotations

import pytest

from gantry_wire.codes import ResponseCode
from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio
PATH = "/v1/brokers/broker-a/settings"


async def test_settings_are_shown_and_changed(client, system):
    shown = await client.get(PATH)
    assert shown.json() == {"broker": "broker-a", "settings": system.stores["broker-a"].kept_settings}
    changed = await client.patch(PATH, json={"settings": {"maxTransferCountOnMessageInMemory": "64"}})
    assert changed.status_code == 200
    assert changed.json()["settings"]["maxTransferCountOnMessageInMemory"] == "64"
    assert system.stores["broker-a"].kept_settings["maxTransferCountOnMessageInMemory"] == "64"


async def test_an_unknown_broker_has_404_settings(client):
    answer = await client.get("/v1/brokers/broker-z/settings")
    assert (answer.status_code, answer.json()["code"]) == (404, "BROKER_NOT_EXIST")


async def test_a_refusal_has_the_brokers_message(client, system):
    words = "brokerName cannot be changed while the broker runs"
    system.stores["broker-a"].refuse = StoreRefused(ResponseCode.NO_PERMISSION, words)
    answer = await client.patch(PATH, json={"settings": {"brokerName": "x"}})
    assert (answer.status_code, answer.json()["detail"]) == (403, words)


async def test_a_broker_that_is_away_is_503_and_the_call_may_be_repeated(client, system):
    await client.get(PATH)
    system.stores["broker-a"].away = PeerAway("broker-a", True, "gone")
    answer = await client.patch(PATH, json={"settings": {"a": "1"}})
    assert (answer.status_code, answer.json()["retryable"]) == (503, True)


@pytest.mark.parametrize(
    "body",
    [{}, {"settings": {}}, {"settings": {"a b": "1"}}, {"settings": {"a": "1\nb=2"}}, {"settings": {"a": 1}}],
)
async def test_a_malformed_change_is_400(client, system, body):
    answer = await client.patch(PATH, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMETER")
    assert "settings" not in system.stores["broker-a"].calls
