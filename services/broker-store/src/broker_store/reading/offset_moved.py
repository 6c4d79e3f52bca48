"""The event RocketMQ stores when it corrects a pull's offset. Its monitoring tool reads it."""

import msgspec

from gantry_wire.headers.messages import PullHeader


def moved_event(header: PullHeader, broker_name: str, next_offset: int) -> bytes:
    """Return the body of a message in OFFSET_MOVED_EVENT."""
    return msgspec.json.encode(
        {
            "consumerGroup": header.consumer_group,
            "messageQueue": {
                "brokerName": broker_name,
                "queueId": header.queue_id,
                "topic": header.topic,
            },
            "offsetNew": next_offset,
            "offsetRequest": header.queue_offset,
        }
    )
