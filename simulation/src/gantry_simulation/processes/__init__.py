"""Simulated processes: start, kill, pause, clocks, and the Environment that the product gets."""
