"""What the launcher and its processes write: log file, terminal."""
