"""The storage engine: bytes and positions on disk.

Knows records, segments and units; never a topic's settings or a client.
"""
