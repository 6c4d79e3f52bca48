"""Programs that use the SDK, in simulated processes, and the ledger of what they sent and consumed."""
