"""The faults of a life. Each begins at the time of its act, and ends by itself after its span or at the end of the life."""
