"""Requests of administration tools: topics, statistics, connections, cleaning. Never stores or delivers a message."""
