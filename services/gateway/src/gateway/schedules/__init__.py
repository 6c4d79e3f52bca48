"""Delayed messages and long tasks at the schedulers. Never keeps a schedule itself."""
