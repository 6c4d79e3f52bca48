"""How fast the simulation lives."""
