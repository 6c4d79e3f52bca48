"""Decodes a broker's question about a half message (39). Pure."""

from __future__ import annotations

from gantry_wire.frames.command import Command
from gantry_wire.messages.properties import PRODUCER_GROUP
from gantry_wire.records.message_record import Record, decode_record


def checked_record(command: Command) -> Record:
    """Return the half message of the question; MalformedRecord if there is none."""
    return decode_record(command.body)


def producer_group_of(command: Command) -> str:
    """Return the producer group of the half message, empty if it names none."""
    return checked_record(command).property_map().get(PRODUCER_GROUP, "")
