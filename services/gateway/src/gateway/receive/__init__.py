"""Receive, acknowledge and extend. Never stores a lease; the stores do."""
