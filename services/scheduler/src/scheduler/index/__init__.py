"""The waiting messages of a store, in memory and in a file derived from its log. Decides nothing."""
