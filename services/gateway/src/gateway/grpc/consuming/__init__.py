"""Calls of consumers: receive, acknowledge, extend, pull."""
