"""What is decided: the marks in the log, and the items of each queue that they decide."""
