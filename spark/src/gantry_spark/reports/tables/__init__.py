"""The tables of a report, as SQL next to this code (`sql/*.sql`) and the order in which it runs. Reads no store and renders nothing."""
