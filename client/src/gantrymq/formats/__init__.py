"""Formats of bodies, names and ids that RocketMQ's clients and the gateway use. Opens no connection and does not know messages."""
