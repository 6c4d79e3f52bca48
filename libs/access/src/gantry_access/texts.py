"""Texts of refusals that clients read. They are RocketMQ's, but for an unknown user: it gets the text of a wrong signature.

RocketMQ's `User:x is not found.` tells a stranger which names exist. For the same reason a server answers texts that name a user only after
the signature was verified.
"""

from __future__ import annotations

from typing import Final

USERNAME_MISSING: Final = "username cannot be null."
"""The request carries no access key."""
CREDENTIALS_WRONG: Final = "check signature failed."
"""The user is unknown, or the signature is not made with one of its secrets."""
AUTHENTICATION_FAILED: Final = "Authentication failed. Please verify the credentials and try again."
"""Authentication failed for a reason of the server's own."""
DATE_MISSING: Final = "datetime is null."
HEADER_MALFORMED: Final = "authentication header is incorrect."
KEY_VALUE_MALFORMED: Final = "authentication keyValues length is incorrect, actual length=1."
SIGNATURE_UNREADABLE: Final = "create authentication context error."

AUTHORIZATION_FAILED: Final = "Authorization failed. Please verify your access rights and try again."
"""Authorization failed for a reason of the server's own."""
CONTEXT_UNREADABLE: Final = "parse authorization context error."
"""The rights that a request needs cannot be read from it: a name in it is not legal."""
CONTEXT_EMPTY: Final = "authorization context is empty."
"""The request names nothing that it needs, or no row of the tables is about it."""
TOPIC_MISSING: Final = "topic is null."
GROUP_MISSING: Final = "group is null."
QUEUE_MISSING: Final = "messageQueue is null."
MESSAGE_MISSING: Final = "message is null."
OTHER_RETRY_TOPIC: Final = "retry topic does not match consumer group."
SETTINGS_EMPTY: Final = "the settings are neither those of a publisher nor of a subscriber."
"""Our own text."""
