"""What reports ask of a log, as SQL beside this code (`sql/*.sql`), and the order in which it is asked. Draws nothing, writes nothing.

A few passes over the log fill views (`traffic`, `latency_bins`, `tops_by_hour`, `items`, `results`, `bodies`); every table is SQL on these.
"""
