"""What a run found, and whether that meets its limits. Pure."""
