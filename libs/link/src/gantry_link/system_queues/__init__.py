"""For services that process system queues: which stores there are, who owns a queue, what it holds."""
