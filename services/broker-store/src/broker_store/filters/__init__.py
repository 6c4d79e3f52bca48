"""SQL92 filters: what groups asked for, kept in consumerFilter.json, and pulls that read properties to find it."""
