"""What holds a store's claims: one keeper per store, one term per claim."""
