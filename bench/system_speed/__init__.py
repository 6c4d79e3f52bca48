"""A whole system: how fast, how late, by how many processes, and what it costs when idle."""
