"""Limits on the number and size of elements in one request, for the schemas and the scan of large bodies."""

from gantry_wire.limits import PROPERTIES_BYTES_MAX

MESSAGES_MAX = 1000
KEYS_MAX = 64
BROKER_PROPERTIES_BYTES = 512
"""Room for the properties that the store adds (region, trace switch, cluster)."""
CLIENT_PROPERTIES_BYTES_MAX = PROPERTIES_BYTES_MAX - BROKER_PROPERTIES_BYTES
ITEMS_MAX = 1024
"""Acknowledgements, or extensions, of one request."""
OFFSETS_MAX = 1024
DEFINITIONS_MAX = 1000
"""Topics, or groups, of one cluster configuration document."""
SETTINGS_MAX = 256
POLICY_DELAYS_MAX = 64
"""Delays of a retry policy."""
