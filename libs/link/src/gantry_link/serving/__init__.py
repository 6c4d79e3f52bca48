"""The side that accepts: listeners, peers, what they may hold."""
