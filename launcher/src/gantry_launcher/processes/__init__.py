"""Starts, watches, restarts and stops the processes of a plan."""
