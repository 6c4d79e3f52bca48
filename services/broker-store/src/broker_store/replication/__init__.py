"""Replication of the log: who leads, what is acknowledged, where logs part. Pure: nothing of it is wired into a store yet."""
"""How a broker survives the loss of its machine: stores that keep the same log, and a register of their leader."""
