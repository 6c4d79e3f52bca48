"""What a replica serves while it follows: reads of what it has replayed."""
