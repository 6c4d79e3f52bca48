"""Reports: the command, the queries on a log and their order, the output folder. Renders nothing, and never writes to a store.

One pass over the log counts all messages as they are read (`traffic`, `latency_bins`, `words`, `hashes`). If messages wait or consumers
are sampled, further passes fetch those rows (`items`, `results`, `bodies`). Every table is SQL on these views.
"""
