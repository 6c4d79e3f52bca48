"""The life of a process: settings, logs, metrics, health, signals, drain. Depends on neither wire nor link.

Import from its modules; this file imports nothing, so a process pays only for what it uses.
"""
