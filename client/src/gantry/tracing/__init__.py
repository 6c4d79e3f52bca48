"""Message trace: records of what was sent and consumed, gathered and sent to the trace topic. Never delays a message."""
