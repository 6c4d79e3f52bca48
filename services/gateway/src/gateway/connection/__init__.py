"""HTTP connections and the server, with a fast path for requests with a known head. Knows nothing of messages."""
