"""One HTTP call: head, body, reply, problems, clocks and metrics. Knows nothing of messages."""
