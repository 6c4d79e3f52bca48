"""Evaluates the samples of an endurance run: which lines are flat, and a page of all. Pure."""
