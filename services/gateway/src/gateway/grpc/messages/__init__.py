"""Conversions between the protocol's messages and the gateway's. Pure."""
