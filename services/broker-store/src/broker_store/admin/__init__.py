"""Questions and orders of tools: topics, statistics, connections, cleaning."""
