"""Telemetry: what clients say of themselves, the commands for them, and the settings that they get."""
