"""Runs the product's own processes in one thread under virtual time, faults and one seed."""
