"""Programs that use the SDK, in simulated processes."""
