"""Virtual time: the heap of events, the trace, and the event loop of one process."""
