"""Systems of a checkout: found, started for a test, stopped. Never imports the SDK."""
