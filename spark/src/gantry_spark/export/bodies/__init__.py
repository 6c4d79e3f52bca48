"""Message bodies as typed columns. Never guesses: a value that does not fit is refused."""
