"""The endurance run."""
