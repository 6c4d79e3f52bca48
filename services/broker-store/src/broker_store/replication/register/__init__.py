"""The register of a broker group: who leads since which version, and which stores are in sync. See README.md beside it."""

from broker_store.replication.register.jetstream_calls import Waits
from broker_store.replication.register.jetstream_register import JetStreamRegister
from broker_store.replication.register.memory_register import Faults, MemoryRegister, Records
from broker_store.replication.register.port import (
    Outcome,
    Refused,
    Register,
    RegisterAway,
    RegisterBehind,
    RegisterUnusable,
    Unknown,
    Written,
)
from broker_store.replication.register.record import MalformedRecord, Registered

__all__ = [
    "Faults",
    "JetStreamRegister",
    "MalformedRecord",
    "MemoryRegister",
    "Outcome",
    "Records",
    "Refused",
    "Register",
    "RegisterAway",
    "RegisterBehind",
    "RegisterUnusable",
    "Registered",
    "Unknown",
    "Waits",
    "Written",
]
