"""What a store is in its broker group: its settings, register, report, room, and what it may grant."""
