"""Time in the store: store time, how far the wall clock is trusted, and the note that carries both over a restart.

Never sets a system clock.
"""
