"""Translates messages of the gateway and of typer for the command line: options instead of fields of a request. Pure."""

import os
import re
from typing import Any

PROGRAM = os.environ.get("GANTRY_PROGRAM") or "gantrymq"
"""The command as the user types it; the checkout's launcher sets its own."""
NAME = PROGRAM.rpartition("/")[2]
"""What error lines begin with."""
HINTS = {
    "TOPIC_NOT_EXIST": "gantrymq topic list shows the topics, gantrymq topic create NAME creates one",
    "SUBSCRIPTION_GROUP_NOT_EXIST": "gantrymq group list shows the groups, gantrymq group create NAME creates one",
    "BROKER_NOT_EXIST": "gantrymq broker list shows the brokers",
    "FILTER_CONFLICT": "--change-filter replaces it with yours, for all consumers of the group",
    "UNAUTHORIZED": "give a token with --token or GANTRY_TOKEN, or a user with --access-key",
    "USER_NOT_EXIST": "gantrymq access users list shows the users, gantrymq access users create NAME creates one",
    "TOKEN_NOT_EXIST": "gantrymq access tokens list shows the tokens",
    "ROTATION_OPEN": "gantrymq access users set USER --drop-old-secret ends the rotation",
}
"""What to type next, by the gateway's code; the gateway's own message names HTTP calls."""
REMEDIES_OF_HTTP = re.compile(
    r"; create it with PUT .*|, or changeFilter to replace it for all|: end the rotation with PATCH .*|\. Send the header Authorization.*"
)
"""Ends of sentences that HINTS replace."""
OPTIONS = {
    "changeFilter": "--change-filter", "filter": "--filter", "invisibleSeconds": "--invisible", "waitSeconds": "--wait", "maxMessages": "--max",
    "delaySeconds": "--delay", "delayMs": "--delay", "delayLevel": "--delay-level", "deliverAt": "--at", "shiftMs": "--shift",
    "tag": "--tag", "keys": "--key", "properties": "--property", "shardingKey": "--sharding-key", "idempotencyKey": "--idempotency-key",
    "queueId": "--queue", "readQueues": "--read-queues", "writeQueues": "--write-queues", "messageType": "--message-type", "retryMaxTimes": "--retry-max",
    "retryQueues": "--retry-queues", "retryPolicy": "--retry-after", "startAt": "--start-at", "maxPerSecond": "--rate", "toTopic": "--to",
    "producerGroup": "--producer-group", "reason": "--reason",
}  # fmt: skip
"""Fields of requests, and the options that fill them."""
PHRASES = (
    (re.compile(r"it is no offset id, and a unique id needs \?topic="), "a message id is found with --topic TOPIC"),
    (re.compile(r"if this is a unique id, give \?topic="), "a message id is found with --topic TOPIC"),
    (re.compile(r"retry with the same idempotency key"), "send it again, with the same --idempotency-key if it had one"),
    (re.compile(r"^Value error, "), ""),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"at least \1"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"at most \1"),
    (re.compile(r"Input should be a valid integer.*"), "write a whole number"),
    (re.compile(r"Input should be a valid number.*"), "write a number"),
    (re.compile(r"Expected `str` of length >= 1"), "it may not be empty"),
)  # fmt: skip
_FIELDS_IN_TEXT = re.compile(r"\b(" + "|".join(name for name in OPTIONS if not name.islower()) + r")\b")
_NAMELESS = re.compile(r"Expected |Input should")
"""Texts of a validator that do not name their subject."""
_COMMAND = re.compile(r"\bgantrymq (?=[a-z-])")


def as_started(text: str) -> str:
    """Return text whose commands begin with the program that the user started."""
    return _COMMAND.sub(f"{PROGRAM} ", text)


def problem_words(body: dict[str, Any], http_status: int) -> str:
    """Return the gateway's message about a refusal, as one line that a user of the command line can act on."""
    detail = str(body.get("detail") or body.get("title") or f"status {http_status}")
    field = option_of(str(body.get("field", ""))) if _NAMELESS.match(detail) else ""
    words = REMEDIES_OF_HTTP.sub("", detail)
    words = _FIELDS_IN_TEXT.sub(lambda found: OPTIONS[found[1]], plain(words))
    words = f"{field}: {words}" if field else words
    code, expected = str(body.get("code", "")), body.get("expected")
    if expected and str(expected) not in words:
        words += f": expected {expected} at column {body.get('column')}"
    if code in HINTS:
        words += f"; {HINTS[code]}"
    elif body.get("retryable") and "again" not in words:
        words += "; try again"
    return words


def plain(words: str) -> str:
    """Return a validator's message in plain words."""
    for pattern, replacement in PHRASES:
        words = pattern.sub(replacement, words)
    return words


def option_of(field: str) -> str:
    """Return the option that fills a field such as `messages[0].tag`; the field itself if there is none."""
    parts = re.findall(r"[A-Za-z]+", field)
    return next((OPTIONS[part] for part in reversed(parts) if part in OPTIONS), field)


def help_words(text: str) -> str:
    """Return typer's help with argument names as they are typed, and without names of Python's types."""
    usage, blank, rest = text.partition("\n\n")
    usage = re.sub(r"\{([^{}]+)\}(?:\.\.\.)?", r"\1", usage)
    usage = re.sub(r"\[(\[[^\[\]]+\])\](?:\.\.\.)?", r"\1", usage)
    rest = re.sub(r"^(  -.*) <str>", r"\1 TEXT ", rest, flags=re.MULTILINE)
    rest = re.sub(r" <(?:str|list\[str\])>", lambda found: " " * len(found[0]), rest)
    rest = re.sub(r"<int range>", "N          ", rest)
    rest = re.sub(r"<([^<> ]*\|[^<> ]*)>", r"\1  ", rest)
    return usage + blank + rest
