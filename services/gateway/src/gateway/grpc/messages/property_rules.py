"""Which property names a user may set over gRPC and sees again. Pure.

RocketMQ's own names, the fields of the protocol, and Gantry's names are refused and hidden. Any other name is the user's, also one
that begins with two underscores, which HTTP refuses: RocketMQ's producers use such names.
"""

import re

from gantry_wire.messages import properties as p
from gateway.messages.property_names import RESERVED

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
"""Characters that RocketMQ refuses in texts of a message; among them are those that separate properties in the log."""
NAMES = RESERVED | {p.SHARDING_KEY, p.LITE_TOPIC, p.BORN_HOST, p.PROPERTY_CRC, p.TRANSACTION_ID}
_PREFIXES = ("__GANTRY_", p.TRANSIENT_PREFIX)


def is_reserved(name: str) -> bool:
    """Return whether a property is not the user's."""
    return name in NAMES or name.startswith(_PREFIXES)
