"""What the gateway needs from outside, as Protocols and plain values. Never imports another package of the gateway."""
