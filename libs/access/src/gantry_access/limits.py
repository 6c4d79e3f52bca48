"""Maxima of users and policies, each named with its unit. RocketMQ has none."""

USER_NAME_CHARACTERS_MAX = 255
RESOURCE_NAME_CHARACTERS_MAX = 255
"""The longest topic, a retry topic, has as many."""
SECRETS_PER_USER_MAX = 2
"""The secret in use and the one that replaces it."""
ENTRIES_PER_SUBJECT_MAX = 10_000
NETWORKS_PER_ENTRY_MAX = 1_000
NEEDS_PER_REQUEST_MAX = 10_000
"""Topics and groups that one request names. A header has room for millions, and finding what they need would take a minute."""
