"""Decides who may do what: users, policies, and the decision about a request. Pure: no IO, no clock, no randomness."""
