"""Reads golden files: text with `# name: value` lines and hex in named sections (format in golden/README.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from gantry_wire.records.message_record import MAGIC_V1, Record

GOLDEN = Path(__file__).parent / "golden"
Fields = dict[str, object]

RECORD_FIELDS: dict[str, Callable[[Record], object]] = {
    "totalSize": lambda record: record.size,
    "magicCode": lambda record: record.magic - 2**32,
    "version": lambda record: "V1" if record.magic == MAGIC_V1 else "V2",
    "bodyCRC": lambda record: record.body_crc,
    "queueId": lambda record: record.queue_id,
    "flag": lambda record: record.flag,
    "queueOffset": lambda record: record.queue_offset,
    "physicalOffset": lambda record: record.position,
    "sysFlag": lambda record: record.sys_flag,
    "bornTimestamp": lambda record: record.born_timestamp,
    "bornHost": lambda record: record.born_address[0],
    "bornHostPort": lambda record: record.born_address[1],
    "storeTimestamp": lambda record: record.store_timestamp,
    "storeHost": lambda record: record.store_address[0],
    "storeHostPort": lambda record: record.store_address[1],
    "reconsumeTimes": lambda record: record.reconsume_times,
    "preparedTransactionOffset": lambda record: record.prepared_position,
    "bodyLength": lambda record: len(record.body),
    "body": lambda record: record.body.decode(),
    "bodyHex": lambda record: record.body.hex(),
    "topic": lambda record: record.topic.decode(),
    "propertiesLength": lambda record: len(record.properties),
    "properties": lambda record: record.properties.decode(),
}
"""Golden files' names of record fields, and how to read each from our records."""


def read_golden(path: Path) -> tuple[Fields, dict[str, bytes]]:
    """Return the fields and the sections of a file; bytes before any section name belong to the section ``."""
    fields: Fields = {}
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in path.read_text().splitlines():
        if line.startswith("# @ "):
            current = line[4:]
            sections[current] = []
        elif line.startswith("# "):
            name, separator, value = line[2:].partition(": ")
            if separator and " " not in name:  # prose has a space before its colon
                fields[name] = json.loads(value)
        else:
            sections[current].append(line)
    return fields, {name: bytes.fromhex("".join(lines)) for name, lines in sections.items()}


def under(fields: Fields, prefix: str) -> Fields:
    """Return the fields whose names start with `prefix.`, without the prefix."""
    start = prefix + "."
    return {name.removeprefix(start): value for name, value in fields.items() if name.startswith(start)}


def assert_record(record: Record, fields: Fields) -> None:
    """Compare every field of a record in a golden file; the fields that every record has are required."""
    compared = {name: RECORD_FIELDS[name](record) for name in fields if name in RECORD_FIELDS}
    expected = {name: fields[name] for name in compared}
    for name in ("bornHost", "storeHost"):  # IPv6 has more than one spelling
        expected[name] = str(ip_address(str(expected[name])))
    assert compared == expected
    assert len(compared) >= 18
    assert not fields.keys() - RECORD_FIELDS.keys() - {"segment", "position", "inflated", "body.inflated"}
