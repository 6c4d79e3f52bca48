"""Bodies of messages as typed columns. Never guesses: what does not fit is refused."""
