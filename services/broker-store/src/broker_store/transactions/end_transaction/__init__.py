"""END_TRANSACTION (37): checked against its half, and decided with the others of its turn."""
