"""One HTTP call: its head, body, answer, refusals, clocks and metrics. Never knows what a message is."""
