"""How a typed client calls: over a pool, from a frame made once, with a callback for the answer."""
