"""Systems of a checkout: finds them, starts and stops them for tests. Never imports the SDK."""
