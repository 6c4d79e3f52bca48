"""Message trace: records of sends and consumption, collected and sent to the trace topic. Never delays a message."""
