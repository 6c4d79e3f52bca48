"""Opens a store directory, rebuilds lost state, and takes the checkpoints that bound what a start reads.

Never accepts a send.
"""
