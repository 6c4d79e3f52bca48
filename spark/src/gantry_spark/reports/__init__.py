"""What reports ask of a log, as SQL beside this code (`sql/*.sql`), and the order in which it is asked. Draws nothing, writes nothing.

One pass over the log counts all messages where they are read (`traffic`, `latency_bins`, `words`, `hashes`); where messages wait or consumers
are sampled, a few more fetch those rows (`items`, `results`, `bodies`). Every table is SQL on these views.
"""
