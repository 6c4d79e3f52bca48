"""The command `demo`: shows on a throwaway system what Gantry does, and that nothing is lost."""
