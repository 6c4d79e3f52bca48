"""What programs measure with: a temporary system, processes, a fixed rate, refusals."""
