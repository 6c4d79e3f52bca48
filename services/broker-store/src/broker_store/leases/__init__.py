"""Receive and acknowledge: leases per group, topic and queue in memory, acknowledgements in the log.

Never forgets an acknowledgement.
"""
