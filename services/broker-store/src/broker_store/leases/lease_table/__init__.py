"""Leases of one queue for one group. Pure: it reads no log and knows no request."""
