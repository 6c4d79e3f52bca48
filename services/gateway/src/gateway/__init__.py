"""The HTTP edge of the broker: maps plain HTTP onto the broker-stores and nameservers. Owns nothing, keeps no state."""
