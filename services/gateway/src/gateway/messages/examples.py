"""Examples that several calls show in the OpenAPI. Plain values."""

from typing import Any

MESSAGE_EXAMPLE: dict[str, Any] = {
    "messageId": "7F0000010A1B00000000000012345678",
    "topic": "orders",
    "broker": "broker-a",
    "queueId": 3,
    "queueOffset": 17,
    "keys": ["o-1"],
    "properties": {"x": "1"},
    "bornTimestamp": "2026-01-01T00:00:00.000Z",
    "storeTimestamp": "2026-01-01T00:00:00.001Z",
    "reconsumeTimes": 0,
    "offsetMessageId": "7F00000100002A9F0000000000000000",
    "tag": "a",
    "body": "hi",
}
