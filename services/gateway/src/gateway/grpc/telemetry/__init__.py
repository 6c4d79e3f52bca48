"""Telemetry: what clients say of themselves, what they are told to do, and the settings that they get."""
