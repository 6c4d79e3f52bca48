"""What a store asks of clients for somebody else: resets, relays, replies."""
