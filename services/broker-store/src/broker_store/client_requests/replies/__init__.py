"""Request-reply: pushes a reply to the client that asked, then stores it in the cluster's reply topic.

Never retries a push.
"""
