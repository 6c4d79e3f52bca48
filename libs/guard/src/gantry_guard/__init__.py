"""What stands between a port and the access library: keys, introductions, doors, limits of failures, the audit log."""
