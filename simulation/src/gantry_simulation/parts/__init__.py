"""The product's own processes, assembled as their `__main__` does, on simulated machines."""
