"""The storage engine: bytes and positions on disk. It knows records, segments and units, but no topic and no client."""
