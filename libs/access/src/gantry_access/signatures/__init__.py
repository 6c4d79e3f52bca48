"""Proofs that a client knows its secret: the signature of remoting requests and the `authorization` header of gRPC.

Nothing is cached: every request is verified with the secrets that are live at that moment.
"""
