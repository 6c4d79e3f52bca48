"""Receives with leases: receive, acknowledge, extend. Never keeps a lease itself; the stores do."""
