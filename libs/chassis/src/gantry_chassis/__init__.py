"""The life of a process: settings, logs, metrics, health, signals, drain. Knows neither the wire nor the link.

Import what you need from its modules; nothing is imported here, so that a process pays only for what it uses.
"""
