"""The tables of a report, as SQL beside this code (`sql/*.sql`) and the order in which it runs. Reads no store and draws nothing."""
