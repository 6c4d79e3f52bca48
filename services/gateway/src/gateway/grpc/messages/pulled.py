"""Formats pulled records as the parts of a PullMessage response. Pure."""

from gantry_wire.messages.properties import TAGS
from gantry_wire.records.message_record import scan_records
from gateway.grpc.messages.delivered import pulled_part
from gateway.grpc.proto.common import Resource
from gateway.ports.stores import Pulled
from gateway.pull.pulling import Selection


def pulled(found: Pulled, _broker: str, selection: Selection) -> list[bytes]:
    """Return each selected message as one serialized PullMessageResponse. Raises MalformedRecord."""
    tags = selection.tags.names
    return [
        pulled_part(record, Resource(name=record.topic.decode()))
        for record in scan_records(found.records)
        if not tags or record.readable_properties().get(TAGS) in tags
    ]
