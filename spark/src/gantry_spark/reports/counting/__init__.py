"""Counts a log where it is read, piece by piece. Never sees more than one piece and draws nothing."""
