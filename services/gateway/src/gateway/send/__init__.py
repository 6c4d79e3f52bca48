"""Sends: from a request to records at the stores. Never reads messages."""
