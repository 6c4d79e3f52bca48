"""Sends that are to be delivered later: into which system queue they go, when they are due, how they are taken back."""
