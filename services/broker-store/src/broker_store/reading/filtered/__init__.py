"""Pulls with an SQL92 filter: the filters of groups, and the scan of the log by them, in fair turns."""
