"""Reads and checks what a request carries: JSON bodies, names, numbers, limits. Never asks a store."""
