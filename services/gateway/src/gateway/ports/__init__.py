"""The gateway's ports to the outside, as Protocols and plain values. Imports no other package of the gateway."""
