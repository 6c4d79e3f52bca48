"""Decides whether a user may do what a request needs, and names the rules that decided."""
