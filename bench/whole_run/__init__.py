"""All programs, one after the other."""
