"""Names of the system topics and properties that belong to the scheduler. Knows nothing else."""

from gantry_wire.names import GANTRY_SYSTEM_PREFIX

PARKED_TOPIC = f"{GANTRY_SYSTEM_PREFIX}PARKED"
"""What could not be delivered for too long; an item there is decided by an order."""
TASKS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}TASKS"
"""Definitions, progress and ends of tasks."""
SCHEDULER_GROUP = "GANTRY_SCHEDULER"
PARKED_REASON = "__GANTRY_PARKED_REASON"
PARKED_FROM = "__GANTRY_PARKED_FROM"
"""`topic:queue:offset` of the item that was parked."""
