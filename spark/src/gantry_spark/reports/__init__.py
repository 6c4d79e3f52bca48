"""Reports: the command, what it asks of a log and in which order, the folder it writes. Never draws, and never writes in a store.

One pass over the log counts all messages where they are read (`traffic`, `latency_bins`, `words`, `hashes`); where messages wait or consumers
are sampled, a few more fetch those rows (`items`, `results`, `bodies`). Every table is SQL on these views.
"""
