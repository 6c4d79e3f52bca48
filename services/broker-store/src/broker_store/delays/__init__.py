"""Delayed sends: their system queue, due time and recall. Never delivers a message: the scheduler does."""
