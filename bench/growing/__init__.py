"""Speed as a store grows."""
