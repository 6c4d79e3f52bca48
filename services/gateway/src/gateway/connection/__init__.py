"""HTTP connections and the server, with the fast path of calls whose heads are known. Never knows what a message is."""
