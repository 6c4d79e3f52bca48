"""The log of a process: structured lines, and the thread that writes them."""
