"""Mixed traffic of every kind over HTTP, and the ledger that judges it; shared by kill tests and the endurance run."""
