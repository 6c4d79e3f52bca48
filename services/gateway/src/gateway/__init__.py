"""The HTTP edge of the broker: maps plain HTTP onto the broker-stores and nameservers. Stateless."""
