"""What clients do: each operation is a few requests, whose answers or absence go into the ledger. `table` has them by name."""
