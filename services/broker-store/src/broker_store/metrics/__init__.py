"""What the store counts. Counts only what others report."""
