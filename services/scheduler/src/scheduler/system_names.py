"""Names of the system topics and properties that belong to the scheduler. Knows nothing else."""

from gantry_wire.names import GANTRY_SYSTEM_PREFIX, GATEWAY_GROUP

PARKED_TOPIC = f"{GANTRY_SYSTEM_PREFIX}PARKED"
"""What could not be delivered for too long; an item there is decided by an order."""
TASKS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}TASKS"
"""Definitions, progress and ends of tasks."""
SCHEDULER_GROUP = GATEWAY_GROUP
"""The group of Gantry's own pulls: it may read system topics, gets big answers and leaves no offsets behind."""
PARKED_REASON = "__GANTRY_PARKED_REASON"
PARKED_FROM = "__GANTRY_PARKED_FROM"
"""`topic:queue:offset` of the item that was parked."""
