"""Refusals before any policy is evaluated, with RocketMQ's texts."""

NO_TOPIC = "topic is null."
NO_GROUP = "group is null."
NO_QUEUE = "messageQueue is null."
NO_MESSAGE = "message is null."
OTHER_RETRY_TOPIC = "retry topic does not match consumer group."
NO_ROW = "authorization context is empty."
NO_SETTINGS = "the settings are neither those of a publisher nor of a subscriber."


class RightsRefused(Exception):
    """A request that no right can allow: a name is missing, names contradict each other, or its code has no row.

    Answer `remark`: code 16 over remoting, 403 over HTTP, status 40100 over gRPC.
    """

    def __init__(self, remark: str) -> None:
        super().__init__(remark)
        self.remark = remark
