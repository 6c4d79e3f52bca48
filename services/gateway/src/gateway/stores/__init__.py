"""Adapters: the ports over gantry_link and Redis. Never decides; imported by the composition root only."""
