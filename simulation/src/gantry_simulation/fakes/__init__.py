"""Small fakes of the servers that the product uses and does not contain: NATS and Valkey. They speak the real protocols.

A fake knows what the product uses. Anything else raises NotFaked: in a simulated process that is a violation with its name.
"""
