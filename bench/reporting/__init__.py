"""What was measured, beside its goal."""
