"""The limit of properties counts bytes, at any width of characters; one message over it refuses the whole request."""

from __future__ import annotations

import pytest

from gateway.requests.limits import CLIENT_PROPERTIES_BYTES_MAX

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
OTHERS_BYTES_MAX = 256
"""More than the message's id, its other properties and the separators between them take."""


def stored_count(system) -> int:
    return sum(len(queue) for queue in system.stores["broker-a"].queues.values())


@pytest.mark.parametrize("where", ["properties", "tag", "keys"])
@pytest.mark.parametrize("letter", ["x", "é", "€", "\U0001f600"])
async def test_characters_of_every_width_have_the_same_limit_of_bytes(client, system, letter, where):
    width = len(letter.encode())
    first_over = CLIENT_PROPERTIES_BYTES_MAX // width + 1
    over = {first_over, first_over * 6 // 5, CLIENT_PROPERTIES_BYTES_MAX // 3, CLIENT_PROPERTIES_BYTES_MAX}

    def message(count: int) -> dict[str, object]:
        text = letter * count
        value = {"properties": {"p": text}, "tag": text, "keys": [text]}[where]
        return {"body": "b", "queueId": 1, where: value}

    for count in sorted(size for size in over if size * width > CLIENT_PROPERTIES_BYTES_MAX):
        pair = {"messages": [{"body": "ok", "queueId": 0}, message(count)]}
        answer = await client.post(ORDERS, json=pair)
        assert (answer.status_code, answer.json()["field"]) == (400, "messages[1].properties"), count
        assert stored_count(system) == 0
    fits = (CLIENT_PROPERTIES_BYTES_MAX - OTHERS_BYTES_MAX) // width
    answer = await client.post(ORDERS, json={"messages": [{"body": "ok", "queueId": 0}, message(fits)]})
    assert answer.status_code == 200, answer.text
    assert stored_count(system) == 2
