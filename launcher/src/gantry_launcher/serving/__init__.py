"""One running system: its claim on a data directory, its start, its control socket, its end."""
