"""Sends to a broker with replicas."""
