"""Time in the store: store time, the wall clock as far as it is believed, and what is kept of both over a restart."""
