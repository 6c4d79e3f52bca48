"""Checks names and numbers in paths and queries. Pure."""

from collections.abc import Collection, Mapping
from datetime import datetime
from urllib.parse import parse_qsl

from gantry_wire import names as wire_names
from gantry_wire.errors import IllegalName
from gantry_wire.limits import INT32_MAX, INT64_MAX
from gateway.http.problems import forbidden, invalid

QUERY_FIELDS_MAX = 64
NAME_CHARS_MAX = 100


def topic_of(text: str) -> str:
    """Return a valid topic name that clients may use; raise 400, or 403 for the broker's own topics."""
    try:
        wire_names.check_topic(text)
    except IllegalName as error:
        raise invalid(
            "topic", str(error), f"{wire_names.TOPIC_BYTES_MAX} letters, digits or % | - _"
        ) from error
    if text.startswith(wire_names.GANTRY_SYSTEM_PREFIX):
        raise forbidden(f"topic {text} belongs to the system", "topic")
    return text


def sendable(topic: str) -> str:
    """Return the topic if clients may send to it."""
    if topic in wire_names.SEND_FORBIDDEN_TOPICS:
        raise forbidden(f"sending to topic {topic} is forbidden: it belongs to the system", "topic")
    return topic


def group_of(text: str) -> str:
    """Return a valid group name; raise 400."""
    try:
        wire_names.check_group(text)
    except IllegalName as error:
        raise invalid(
            "group", str(error), f"{wire_names.GROUP_BYTES_MAX} letters, digits or % | - _"
        ) from error
    return text


def not_derived(group: str) -> str:
    """Return the group, unless its name is that of a group's topic; raise 403."""
    if group.startswith((wire_names.RETRY_PREFIX, wire_names.DLQ_PREFIX)):
        detail = f"group {group} is called like a topic that belongs to a group; take a name without %RETRY% and %DLQ% at its start"
        raise forbidden(detail, "group")
    return group


def queue_id_of(text: str) -> int:
    """Return the queue id of a path."""
    return number(text, "queueId", 0, INT32_MAX)


def number(text: str, field: str, least: int, most: int) -> int:
    """Return an integer within bounds; raise 400 that names both bounds."""
    limit = f"{least}…{most}"
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20):
        raise invalid(field, f"{field} is no whole number", limit)
    value = int(text)
    if not least <= value <= most:
        raise invalid(field, f"{field} is out of bounds: {limit}", limit)
    return value


def query_of(query_string: bytes, known: Collection[str] = ()) -> dict[str, str]:
    """Return the query as a dict. Raise 400 if a name is unknown or repeated, or the query is not UTF-8 or too long."""
    if not query_string:
        return {}
    try:
        text = query_string.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX)
    except UnicodeDecodeError as error:
        raise invalid("query", "the query is not UTF-8") from error
    except ValueError as error:
        raise invalid(
            "query", f"the query has over {QUERY_FIELDS_MAX} fields", str(QUERY_FIELDS_MAX)
        ) from error
    query: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            there_are = ", ".join(sorted(known)) or "none"
            shown = name[:NAME_CHARS_MAX]
            raise invalid(shown, f"there is no query parameter {shown}; there are: {there_are}", there_are)
        if name in query:
            raise invalid(name, f"the query parameter {name} stands twice", "once")
        query[name] = value
    return query


def offset_in(query: Mapping[str, str]) -> int:
    """Return the `offset` of a query; 0 by default."""
    return number(query.get("offset", "0"), "offset", 0, INT64_MAX)


def time_ms(text: str, field: str) -> int:
    """Return an RFC 3339 time, or milliseconds since 1970, as milliseconds."""
    if text.isascii() and text.isdigit():
        return number(text, field, 0, INT64_MAX)
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise invalid(
            field, f"{field} is neither RFC 3339 nor milliseconds since 1970", "RFC 3339"
        ) from error
    if moment.tzinfo is None:
        raise invalid(field, f"{field} needs a time zone, Z for UTC", "RFC 3339")
    try:
        return max(0, round(moment.timestamp() * 1000))
    except (OverflowError, ValueError) as error:
        raise invalid(field, f"{field} lies beyond the calendar", "RFC 3339") from error
