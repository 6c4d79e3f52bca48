"""The txn-checker finds undecided half messages, has their producers asked, and parks those that stay undecided.

It decides none itself.
"""
