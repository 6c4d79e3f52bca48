"""What a store is in its broker group: its settings, register, report, fitness to lead, and what it may grant."""
