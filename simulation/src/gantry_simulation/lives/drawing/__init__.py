"""Draws plans: the shape of a system, operations and faults, from one seed."""
