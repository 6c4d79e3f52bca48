"""Names of the scheduler's system topics and properties."""

from gantry_wire.names import GANTRY_SYSTEM_PREFIX, GATEWAY_GROUP

PARKED_TOPIC = f"{GANTRY_SYSTEM_PREFIX}PARKED"
"""Messages whose delivery failed for too long. An order decides them."""
TASKS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}TASKS"
"""Definitions, progress and results of tasks."""
SCHEDULER_GROUP = GATEWAY_GROUP
"""The group of Gantry's own pulls. It may read system topics, gets large answers and stores no offsets."""
PARKED_REASON = "__GANTRY_PARKED_REASON"
PARKED_FROM = "__GANTRY_PARKED_FROM"
"""`topic:queue:offset` of the parked item."""
