"""Adapters: the ports over gantry_link and Redis. Make no decisions; imported by the composition root only."""
