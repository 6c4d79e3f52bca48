"""The CommitLog: its segments, how records are appended, read, scanned and checked. Knows bytes and positions only."""
