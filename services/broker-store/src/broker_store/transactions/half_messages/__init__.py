"""Half messages: how a transactional send becomes its half, and the halves kept in memory until they are decided."""
