"""SQL92 filters: the subscriptions of groups, kept in consumerFilter.json, and their compiled form.

Never reads a message.
"""
