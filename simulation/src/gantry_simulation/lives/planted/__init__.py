"""Faults planted in the product, one at a time, and the search for the life that finds each."""
